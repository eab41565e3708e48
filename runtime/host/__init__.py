"""The printed CUDA on a CPU: a C++ compiler takes the text, and a machine of fibers runs its CTAs thread by thread.

Nothing of the kernels is interpreted: what runs is the text of `codegen`, with the checks of `memory.h`, the barriers
and copies of `engine.cpp`, and undefined behaviour reported by the compiler's sanitizer.
"""
