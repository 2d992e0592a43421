from cutaway import nn
F = nn.functional


def loss_function(model, images, labels):
    """Mean cross entropy of the model's logits with the labels."""
    return F.cross_entropy(model(images), labels)
