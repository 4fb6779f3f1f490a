"""The models of drawn loops."""

from torch import nn
from torch.utils.checkpoint import checkpoint

from loop_data import CLASSES, WIDTH


class Words(nn.Module):
    """A bag of words; with tied weights the table is the output's too."""
    def __init__(self, tied, dropout):
        super().__init__()
        self.words, self.drop = nn.Embedding(CLASSES if tied else 12, WIDTH), nn.Dropout(dropout)
        self.out = nn.Linear(WIDTH, CLASSES)
        if tied:
            self.out.weight = self.words.weight

    def forward(self, x):
        rows = self.words.weight.shape[0]
        return self.out(self.drop(self.words((x.abs() * 10).long() % rows).mean(1)))


class Layers(nn.Module):
    """A body and a head, of which the body is computed anew in the backward; or two heads, of which each forward trains one."""
    def __init__(self, kind):
        super().__init__()
        self.kind, self.forwards = kind, 0
        self.body = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(8, CLASSES) for _ in range(2 if kind == "alternating" else 1))

    def forward(self, x):
        self.forwards += self.training
        hidden = checkpoint(self.body, x, use_reentrant=False) if self.kind == "checkpointed" else self.body(x)
        return self.heads[self.forwards % len(self.heads)](hidden)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.GRU(1, 5, batch_first=True), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.out(self.cells(x.unsqueeze(2))[0][:, -1])


def model_of(loop):
    name, dropout = loop.model, 0.2 if loop.dropout else 0.0
    if name == "convolutions":
        return nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 3, 3), nn.BatchNorm1d(3), nn.GELU(), nn.Flatten(),
                             nn.Linear(12, CLASSES))
    if name in ("words", "tied"):
        return Words(name == "tied", dropout)
    if name in ("checkpointed", "alternating"):
        return Layers(name)
    if name == "recurrent":
        return Recurrent()
    if name == "attention":
        block = nn.TransformerEncoderLayer(2, 1, 4, dropout, activation="gelu", batch_first=True)
        return nn.Sequential(nn.Unflatten(1, (3, 2)), block, nn.Flatten(), nn.Linear(WIDTH, CLASSES))
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    if name == "frozen":
        model[0].requires_grad_(False)
    return model
