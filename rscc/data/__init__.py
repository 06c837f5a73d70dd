"""Readers of the benchmarks and what training makes of them.

Importing this package costs nothing; its modules need the extra ``train``.
"""
