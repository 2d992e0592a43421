"""A U-Net with attention, the network of a diffusion model, as it would be published for torch: it uses no part of Cutaway.

Input: noisy images (batch, channels, height, width) and each one's time step. After Ho, Jain and Abbeel, "Denoising
Diffusion Probabilistic Models" (2020).
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(timesteps, dim, max_period=10000, dtype=torch.float32):
    """Sines and cosines of the step at geometrically falling frequencies: (batch, dim)."""
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=dtype) / half).to(
        device=timesteps.device
    )
    args = timesteps[:, None].to(dtype) * freqs[None]
    embedding = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
    if dim % 2:
        embedding = torch.cat([embedding, torch.zeros_like(embedding[:, :1])], dim=-1)
    return embedding


def normalization(channels):
    return nn.GroupNorm(num_groups=min(8, channels), num_channels=channels, eps=1e-5)


def zero_module(module):
    for p in module.parameters():
        p.detach().zero_()
    return module


class ResBlock(nn.Module):
    def __init__(self, in_channels, out_channels, emb_channels, dropout=0.0):
        super().__init__()
        self.in_layers = nn.Sequential(
            normalization(in_channels), nn.SiLU(), nn.Conv2d(in_channels, out_channels, 3, padding=1)
        )
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb_channels, 2 * out_channels))
        self.out_norm = normalization(out_channels)
        self.out_layers = nn.Sequential(
            nn.SiLU(), nn.Dropout(p=dropout), zero_module(nn.Conv2d(out_channels, out_channels, 3, padding=1))
        )
        if in_channels == out_channels:
            self.skip = nn.Identity()
        else:
            self.skip = nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = torch.chunk(self.emb_layers(emb)[..., None, None], 2, dim=1)
        h = self.out_norm(h) * (1 + scale) + shift
        return self.skip(x) + self.out_layers(h)


class AttentionBlock(nn.Module):
    def __init__(self, channels, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
        self.norm = normalization(channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.proj_out = zero_module(nn.Conv1d(channels, channels, 1))

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        q, k, v = self.qkv(self.norm(x)).reshape(b * self.num_heads, -1, x.shape[-1]).chunk(3, dim=1)
        scale = 1 / math.sqrt(math.sqrt(c // self.num_heads))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight, dim=-1)
        h = torch.einsum("bts,bcs->bct", weight, v).reshape(b, c, -1)
        return (x + self.proj_out(h)).reshape(b, c, *spatial)


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x):
        return self.op(x)


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.conv(x)


class TimestepSequential(nn.Sequential):
    """Passes the embedding of the time step to the children that take one."""

    def forward(self, x, emb):
        for layer in self:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x


class UNet(nn.Module):
    def __init__(
        self,
        in_channels=3,
        model_channels=64,
        out_channels=3,
        num_res_blocks=2,
        attention_resolutions=(4,),
        channel_mult=(1, 2, 4),
        dropout=0.0,
        num_heads=4,
    ):
        super().__init__()
        self.model_channels = model_channels
        emb = model_channels * 4
        self.time_embed = nn.Sequential(nn.Linear(model_channels, emb), nn.SiLU(), nn.Linear(emb, emb))

        self.input_blocks = nn.ModuleList(
            [TimestepSequential(nn.Conv2d(in_channels, model_channels, 3, padding=1))]
        )
        widths, ch, ds = [model_channels], model_channels, 1
        for level, mult in enumerate(channel_mult):
            for _ in range(num_res_blocks):
                layers = [ResBlock(ch, mult * model_channels, emb, dropout)]
                ch = mult * model_channels
                if ds in attention_resolutions:
                    layers.append(AttentionBlock(ch, num_heads))
                self.input_blocks.append(TimestepSequential(*layers))
                widths.append(ch)
            if level != len(channel_mult) - 1:
                self.input_blocks.append(TimestepSequential(Downsample(ch)))
                widths.append(ch)
                ds *= 2

        self.middle_block = TimestepSequential(
            ResBlock(ch, ch, emb, dropout), AttentionBlock(ch, num_heads), ResBlock(ch, ch, emb, dropout)
        )

        self.output_blocks = nn.ModuleList([])
        for level, mult in list(enumerate(channel_mult))[::-1]:
            for i in range(num_res_blocks + 1):
                layers = [ResBlock(ch + widths.pop(), model_channels * mult, emb, dropout)]
                ch = model_channels * mult
                if ds in attention_resolutions:
                    layers.append(AttentionBlock(ch, num_heads))
                if level and i == num_res_blocks:
                    layers.append(Upsample(ch))
                    ds //= 2
                self.output_blocks.append(TimestepSequential(*layers))

        self.out = nn.Sequential(
            normalization(ch), nn.SiLU(), zero_module(nn.Conv2d(ch, out_channels, 3, padding=1))
        )

    def forward(self, x, timesteps):
        emb = self.time_embed(timestep_embedding(timesteps, self.model_channels, dtype=x.dtype))
        hs, h = [], x
        for module in self.input_blocks:
            h = module(h, emb)
            hs.append(h)
        h = self.middle_block(h, emb)
        for module in self.output_blocks:
            h = torch.cat([h, hs.pop()], dim=1)
            h = module(h, emb)
        return self.out(h)


class GaussianDiffusion(nn.Module):
    """The noising process and the loss: the network is asked for the noise that was added."""

    def __init__(self, model, num_timesteps=1000, beta_start=1e-4, beta_end=0.02):
        super().__init__()
        self.model = model
        self.num_timesteps = num_timesteps
        betas = torch.linspace(beta_start, beta_end, num_timesteps, dtype=torch.float64)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        self.register_buffer("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod).float())
        self.register_buffer("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod).float())

    def q_sample(self, x_start, t, noise):
        scale = self.sqrt_alphas_cumprod[t].view(-1, 1, 1, 1)
        spread = self.sqrt_one_minus_alphas_cumprod[t].view(-1, 1, 1, 1)
        return scale * x_start + spread * noise

    def forward(self, x_start, t, noise=None):
        if noise is None:
            noise = torch.randn_like(x_start)
        predicted = self.model(self.q_sample(x_start, t, noise), t)
        return predicted, F.mse_loss(predicted, noise)
