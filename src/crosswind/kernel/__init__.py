"""COMPILED CODE: generated Numba source, its cache, SIMD, thresholds and arrangements."""
