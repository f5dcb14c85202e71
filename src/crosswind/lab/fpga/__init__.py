"""Handshake join in hardware (Oge, Miyoshi, Kawashima and Yoshinaga, 2011), as a model that counts clocks.

Claim: with a tree of mergers that collects results and an admission controller that holds up
input and cores before a buffer overflows, handshake join runs on a chip without losing a result,
at a clock that hardly falls up to 64 cores; it takes far more input than a nested-loop join while
few pairs match, and less when many do, since then the output is the bottleneck.

``circuit`` is the join, clock by clock; ``join`` runs it; ``nested`` is the design it is compared
with; ``trace`` tells what happens in each clock; ``figures`` makes the paper's figures again.
"""
