"""Search over the schedules of a kernel: what there is to try, in which order, and what was found, as text."""
