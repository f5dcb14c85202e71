"""WJSP, a processor for window joins (Qian, Wang, Chen, Chen and Jin, 2009), as a machine that counts clocks.

Claim: window joins of many streams and many queries come down to comparisons, logic and joins,
so a small instruction set, WJSI, serves any of them; a processor with a join unit a stream and
a routing table runs it, and cutting each window over up to 64 units makes it more than ten
times as fast as the software of its time.

``machine`` is the processor, clock by clock; ``processor`` loads plans into it and runs it;
``software`` runs the same queries on this machine; ``figures`` makes the paper's figures again.
"""
