"""Random numbers: Philox words as a function of seed, counter and index, and the generator that counts."""
