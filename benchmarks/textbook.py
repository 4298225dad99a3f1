"""The Transformer as tutorials write it, in plain PyTorch: what a reader of the paper would make.

Attention is two matrix products around a softmax, and dropout stands wherever a tutorial has it.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.config.schema import ModelConfig
from transformer_cli.text.protocol import PAD_ID


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(config.d_model, config.d_model) for _ in range(4)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Let ``x`` (batch, query, d_model) look at ``memory`` where ``mask`` is True."""
        query, key, value = (
            projected.view(len(x), -1, self.heads, projected.size(2) // self.heads).transpose(1, 2)
            for projected in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(query.size(3))
        weights = F.softmax(scores.masked_fill(~mask, -1e9), dim=3)
        attended = torch.matmul(self.dropout(weights), value)
        merged: Tensor = self.output(attended.transpose(1, 2).contiguous().view(*x.shape))
        return merged


class Layer(nn.Module):
    """Sublayers, each between a normalisation and a residual connection."""

    def __init__(self, config: ModelConfig, is_decoder: bool) -> None:
        super().__init__()
        self.self_attention = Attention(config)
        self.cross_attention = Attention(config) if is_decoder else None
        self.feed_forward = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.d_ff, config.d_model),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(config.d_model) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        """Self-attention, in a decoder attention over ``memory``, feed-forward."""
        y = self.norms[0](x)
        x = x + self.dropout(self.self_attention(y, y, mask))
        if self.cross_attention is not None:
            x = x + self.dropout(self.cross_attention(self.norms[1](x), memory, src_mask))
        x = x + self.dropout(self.feed_forward(self.norms[2](x)))
        return x


class Transformer(nn.Module):
    """Encoder and decoder over one embedding table, which is the output's matrix, too."""

    def __init__(self, config: ModelConfig, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, config.d_model)
        self.encoder = nn.ModuleList(
            Layer(config, is_decoder=False) for _ in range(config.num_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            Layer(config, is_decoder=True) for _ in range(config.num_decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (nn.LayerNorm(config.d_model) for _ in range(2))
        self.output = nn.Linear(config.d_model, vocab)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("positions", sinusoids(512, config.d_model), persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.output.weight = self.embedding.weight

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Log-probabilities (batch, tgt, vocab) of the token after each of ``tgt_in``."""
        src_mask = (src != PAD_ID)[:, None, None, :]
        causal = torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool).tril()
        tgt_mask = (tgt_in != PAD_ID)[:, None, None, :] & causal
        memory = self.embed(src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        memory = self.encoder_norm(memory)
        x = self.embed(tgt_in)
        for layer in self.decoder:
            x = layer(x, tgt_mask, memory, src_mask)
        return F.log_softmax(self.output(self.decoder_norm(x)), dim=2)

    def embed(self, ids: Tensor) -> Tensor:
        """Scaled embeddings plus positions."""
        embedded = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        dropped: Tensor = self.dropout(embedded + self.get_buffer("positions")[: ids.size(1)])
        return dropped


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table of positions, (length, d_model)."""
    position = torch.arange(length)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table
