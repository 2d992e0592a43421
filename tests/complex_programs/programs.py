"""Programs on complex tensors, as a user writes them: results and gradients must be eager's on every backend.

Input: two complex matrices of shape (3, 3), each with a gradient. A result may be real or complex.
"""

import cutaway as ct

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def arithmetic(x, y):
    return x * y + 1j * x - y / (x + 3) + 2.5


@program
def elementary(x, y):
    return ct.exp(x) * ct.sin(y) + ct.tanh(x * 0.5) - ct.sqrt(y) + ct.log(x + 5) + x**2 + y**0.5


@program
def parts(x, y):
    return x.real * y.imag + x.abs() - ct.angle(y), x.real.sin()


@program
def conjugates(x, y):
    return x.conj() @ y.mH, ct.vdot(x[0], y[:, 1]), x.H


@program
def made_of_parts(x, y):
    return ct.complex(x.real + 1, y.imag * 2) * ct.polar(x.abs(), ct.angle(y))


@program
def views(x, y):
    pairs = ct.view_as_real(x) * 3 + ct.view_as_real(y).flip(0)
    return ct.view_as_complex(pairs).T, x.T.reshape(9), y[:, None].expand(3, 2, 3)


@program
def writes_through_parts(x, y):
    z = x.clone()
    z.real.mul_(2)
    z.imag[0] = y.real[0]
    ct.view_as_real(z)[1, :, 0].add_(1)
    return z * y


@program
def reductions(x, y):
    return (x * y).sum(), x.mean(0), x.prod(1), y.cumsum(0), x.var(), ct.linalg.norm(y, dim=0)


@program
def chosen(x, y):
    return ct.where(x.real > y.real, x, y), x == y, ct.cat([x, y.real]), x.tril(), ct.stack([x, y])[1, :, ::2]


@program
def questions(x, y):
    if x.is_complex() and not x.real.is_complex() and x.dtype is not ct.float32:
        return x + ct.ones(3, dtype=x.dtype) * 1j
    return y


@program
def same_result_twice(x, y):
    z = x @ y
    return z, z, z.T, x


@program
def solved(x, y):
    a = x + 4 * ct.eye(3)
    return ct.linalg.solve(a, y), ct.linalg.inv(a), ct.linalg.det(a), ct.linalg.svdvals(y)


@program
def with_real_numbers(x, y):
    r = x.real.detach().float()
    return r * y, r + 1j, (r > 0) * x, ct.sigmoid(x) + r, x.to(ct.complex128) + r


@program
def random_numbers(x, y):
    return x * ct.randn(3, 3, dtype=ct.complex64), ct.rand(2, dtype=ct.complex128)


@program
def transforms(x, y):
    half = ct.fft.rfft(x.real, norm="ortho")
    return (
        ct.fft.ifft2(ct.fft.fft2(x) * y),
        ct.fft.irfft(half * 2, 3),
        ct.fft.fftshift(ct.fft.fft(y, 4, 0)),
        half,
    )


@program
def eigenvalues(x, y):
    values, vectors = ct.linalg.eig(x)
    return (
        ct.linalg.eigvals(y).sum(),
        values.abs().sum(),
        (vectors.abs() ** 2).sum(),
        ct.linalg.eigvals(x.real).prod().real,
    )


@program
def rotary_positions(x, y):
    """The keys' gradient is a product that lies turned in memory, and is read as complex numbers."""
    queries, keys = (ct.view_as_real(part).flatten(1)[None, None] for part in (x, x * y))
    return ct.nn.functional.scaled_dot_product_attention(queries, keys, queries + 1)


@program
def numbers_of_what_is_turned(x, y):
    product = (x.real @ y.imag)[:2]
    return ct.view_as_complex(product.T.contiguous()), ct.view_as_complex((x.real * 2).T[:, :2].contiguous())
