"""Do generated kernels, C++ and Triton, compute what eager computes, in as many kernels as promised?"""
