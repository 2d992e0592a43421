import cutaway


@cutaway.compile
def normalize(x):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt()


normalize(cutaway.ones(32, 64))
