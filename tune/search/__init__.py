"""Strategies of search: which points of a space are measured next, given the times of those that were."""
