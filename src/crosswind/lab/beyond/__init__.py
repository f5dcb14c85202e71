"""What the papers compare pair by pair, an index finds: the same join, the same rows, a fraction of the work.

The papers' own load is a stroll for one core with an index. How far that carries, how it compares with engines that
people use, and whether a calculator can say beforehand what a load needs, is shown here. Nothing of it was published
with the papers, so nothing is laid over it.
"""
