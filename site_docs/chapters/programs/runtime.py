import cutaway


@cutaway.compile
def net(x, w1, w2, w3):
    h = (x @ w1).relu()
    h = (h @ w2).relu()
    return (h @ w3).relu()


for rows in (4, 5):
    net(*(cutaway.ones(n, m) for n, m in ((rows, 8), (8, 16), (16, 16), (16, 2))))
