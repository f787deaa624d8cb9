"""The Trimodal BERT in PyTorch, with exactly the parameters and names that Trident trains.

Two Hugging Face encoders (of any family in encoders.py) and a table of numbers, fused into one decision. The names of
logical_parameters() are Trident's logical names: primary.encoder.layer.0..., primary.projection.weight,
tabular.norm.weight, fusion.dense.weight. Used by golden.py, parity.py and the benchmarks; Trident itself needs no
Python.
"""
import inspect
import math

import torch
from torch import nn
from transformers import AutoConfig, AutoModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from columns import ColumnFusion, EmbeddedTabular, GatedFusion, are_vectors

# Keys of an encoder that transformers does not know.
OWN_KEYS = ("model_type", "attention_pattern", "num_experts", "experts_per_token", "expert_capacity_factor",
            "router_aux_loss_coef", "expert_layers")
# Tensors of a file that are several parameters of Trident: parts of their rows.
JOINED = {".attn.Wqkv.": ("query", "key", "value"), ".mlp.Wi.": ("input", "gate"),
          ".self_attn.in_proj_": ("attention.query", "attention.key", "attention.value")}
# Modules of PyTorch's layers, in the fusion.
RENAMED = {".self_attn.out_proj.": ".attention.output.",
           ".linear1.": ".feed_forward.inner.", ".linear2.": ".feed_forward.outer.",
           ".norm1.": ".attention.norm.", ".norm2.": ".feed_forward.norm."}


class Pooler(nn.Module):
    """For families whose models in transformers have none."""

    def __init__(self, width):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, 0]))


def make_encoder(spec, pooling):
    """spec: Hugging Face config.json keys, including model_type."""
    config = AutoConfig.for_model(spec.get("model_type", "bert"),
                                  **{key: value for key, value in spec.items() if key not in OWN_KEYS})
    model_class = MODEL_MAPPING[type(config)]
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        return AutoModel.from_config(config, add_pooling_layer=pooling == "pooler")
    encoder = AutoModel.from_config(config)
    if pooling == "pooler":
        encoder.pooler = Pooler(encoder.config.hidden_size)
    return encoder


def logical(name, tensor):
    """{logical name: rows} of a tensor under transformers' name; the rows are views of it."""
    for joined, parts in JOINED.items():
        if joined in name:
            stem = "." if joined.endswith("_") else joined
            return {name.replace(joined, f"{stem}{part}."): rows
                    for part, rows in zip(parts, tensor.chunk(len(parts)), strict=True)}
    for theirs, ours in RENAMED.items():
        if name.startswith("fusion."):
            name = name.replace(theirs, ours)
    return {name: tensor}


def logical_parameters(model):
    """Trident's parameters of a model: {logical name: tensor}, views of PyTorch's."""
    made = {}
    for name, parameter in model.named_parameters():
        made.update(logical(name, parameter.detach()))
    return made


def logical_gradients(model):
    made = {}
    for name, parameter in model.named_parameters():
        made.update(logical(name, torch.zeros_like(parameter) if parameter.grad is None else parameter.grad))
    return made


def fixed_layout(pattern, heads, length):
    """Which blocks each head's queries attend to by an attention_pattern of mode fixed, all keys given: [heads, n, n]
    of 0 or 1, for texts of up to `length` tokens."""
    block, local, representatives = pattern["block"], pattern["num_local_blocks"], pattern["num_global_blocks"]
    n = -(-length // block)
    layout = torch.zeros(heads, n, n, dtype=torch.bool)
    for head in range(heads):
        first = local - (1 + head % pattern["num_different_global_patterns"]) * representatives
        for window in range(0, n, local):
            layout[head, window:window + local, window:window + local] = True
            chosen = min(window + first, n - representatives) if window + local > n else window + first
            layout[head, :, chosen:chosen + representatives] = True
    return layout


class Dense(nn.Module):
    """Weights of one dense layer of each expert."""

    def __init__(self, experts, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(experts, outputs))


class Experts(nn.Module):
    """A mixture in the place of a feed-forward layer: a loop over sequences, experts and tokens."""

    def __init__(self, spec):
        super().__init__()
        experts, width, inner = spec["num_experts"], spec["hidden_size"], spec["intermediate_size"]
        self.intermediate, self.output = nn.Module(), nn.Module()
        self.intermediate.dense = Dense(experts, inner, width)
        self.output.dense = Dense(experts, width, inner)
        self.spec, self.balance, self.dropped = spec, 0.0, 0

    def expert(self, e, x):
        inner, outer = self.intermediate.dense, self.output.dense
        return nn.functional.linear(nn.functional.gelu(nn.functional.linear(x, inner.weight[e], inner.bias[e])),
                                    outer.weight[e], outer.bias[e])

    def sequence(self, x, probs):
        """x [length, width], probs [length, experts] -> (output, dropped tokens)."""
        experts, per_token = self.spec["num_experts"], self.spec["experts_per_token"]
        factor = self.spec["expert_capacity_factor"]
        capacity = max(1, min(len(x), math.ceil(factor * per_token * len(x) / experts - 1e-9)))
        weight, choice = probs.topk(per_token, dim=-1)
        if per_token > 1:
            weight = weight / weight.sum(-1, keepdim=True)
        taken, out, placed = [0] * experts, [torch.zeros_like(row) for row in x], [False] * len(x)
        for j in range(per_token):
            for t in range(len(x)):
                e = int(choice[t, j])
                if taken[e] == capacity:
                    continue
                taken[e] += 1
                placed[t] = True
                out[t] = out[t] + weight[t, j] * self.expert(e, x[t])
        first = torch.bincount(choice[:, 0], minlength=experts).to(probs.dtype) / len(x)
        return torch.stack(out), experts * (first * probs.mean(0)).sum(), placed.count(False)

    def forward(self, x, logits, lengths):
        """x [sequences, length, width], of which `lengths` are real."""
        out, self.balance, self.dropped = torch.zeros_like(x), 0.0, 0
        for s, length in enumerate(lengths):
            made, balance, dropped = self.sequence(x[s, :length], logits[s, :length].softmax(-1))
            out[s, :length] = made
            self.balance = self.balance + balance / len(lengths)
            self.dropped += dropped
        return out


def expert_layers(spec):
    """Numbers of the layers with experts."""
    layers = spec.get("expert_layers", "every 2") if spec.get("num_experts") else []
    if isinstance(layers, str):
        every = int(layers.split()[1])
        layers = [i for i in range(spec["num_hidden_layers"]) if (i + 1) % every == 0]
    return layers


def mixed_by(encoder, layer):
    """The feed-forward part of a layer with experts."""
    def mixed(x):
        made = layer.experts(x, layer.router(x), encoder.lengths)
        return layer.output.LayerNorm(layer.output.dropout(made) + x)
    return mixed


def add_experts(encoder, spec):
    """Gives layers of a Hugging Face encoder experts; encoder.lengths must be set before each call."""
    for i in expert_layers(spec):
        layer = encoder.encoder.layer[i]
        layer.router = nn.Linear(spec["hidden_size"], spec["num_experts"], bias=False)
        layer.experts = Experts(spec)
        del layer.intermediate, layer.output.dense

        layer.feed_forward_chunk = mixed_by(encoder, layer)


class Fusion(nn.Module):
    def __init__(self, width, hidden, classes, dropout):
        super().__init__()
        self.dense = nn.Linear(width, hidden)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.output(self.dropout(torch.relu(self.dense(x))))


class Tabular(nn.Module):
    """LayerNorm -> Linear -> ReLU. A LayerNorm over one column would erase it, so with one it is skipped."""

    def __init__(self, columns, common):
        super().__init__()
        self.norm = nn.LayerNorm(columns, eps=1e-5) if columns > 1 else None
        self.linear = nn.Linear(columns, common)

    def forward(self, numbers):
        return torch.relu(self.linear(numbers if self.norm is None else self.norm(numbers)))


def text_names(config):
    """primary, secondary, text3, ...: as many as there are texts."""
    if config.get("text_list"):
        return ["primary", "secondary", *(f"text{i}" for i in range(3, len(config["text_list"]) + 1))]
    return [name for name in ("primary", "secondary") if config.get(f"{name}_text_name")]


def reader(config, name):
    """The encoder that reads a text."""
    if config.get("text_encoders"):
        return config["text_encoders"][text_names(config).index(name)]
    return "primary" if config.get("share_encoders") else name


def encoder_spec(config, name):
    """The architecture of a text's encoder."""
    return config[f"{reader(config, name)}_encoder"]


class Trimodal(nn.Module):
    """config: the keys of Trident's configuration file; the encoders' architectures in primary_encoder,
    secondary_encoder."""

    def __init__(self, config, preprocessing=None):
        """preprocessing: that of columns which become vectors (columns.py)."""
        super().__init__()
        self.config = config
        self.pooling = config.get("pooling", "pooler")
        common = config["hidden_common_dim"]
        self.branches = []
        for name in text_names(config):
            spec = encoder_spec(config, name)
            if reader(config, name) != name:
                assert not spec.get("num_experts"), "experts that texts share are not written here"
                encoder = nn.Module()  # its projection alone
                encoder.config = getattr(self, reader(config, name)).config
            else:
                encoder = make_encoder(spec, self.pooling)
                add_experts(encoder, spec)
            encoder.projection = nn.Linear(encoder.config.hidden_size, common)
            setattr(self, name, encoder)
            self.branches.append(name)
        columns = len(config.get("tab_field_list") or [])
        self.tabular = Tabular(columns, common) if columns else None
        if columns and are_vectors(config):
            self.tabular = EmbeddedTabular(config, preprocessing, common)
        fused = config.get("fusion") == "columns"
        width = common if fused else common * (len(self.branches) + (columns > 0))
        self.fusion = Fusion(width, config["fusion_hidden_dim"], config["num_classes"],
                             config.get("fusion_dropout", 0.1))
        if config.get("fusion") == "gated":
            self.fusion = GatedFusion(self.fusion, width)
        if fused:
            self.fusion = ColumnFusion(self.fusion, config)
        weights = config.get("class_weights") or [1.0] * config["num_classes"]
        self.register_buffer("class_weights", torch.tensor(weights, dtype=torch.float32), persistent=False)
        self.label_smoothing, self.focal_gamma = 0.0, 0.0  # of the loss
        self.number = None  # outputs are numbers: {"loss", "delta", "levels"}

    def encode(self, name, ids, mask, windows=None):
        """ids, mask: [sequences, length]; mask None: every position is a real token. windows: how many sequences, one
        after the other, are each sample's, whose pooled vectors are averaged; None: one each. Returns
        [samples, common]."""
        encoder = getattr(self, reader(self.config, name))
        pattern = encoder_spec(self.config, name).get("attention_pattern")
        seen = mask if pattern is None else self.masked(encoder, pattern, ids, mask)
        encoder.lengths = [ids.shape[1]] * len(ids) if mask is None else mask.sum(1).tolist()
        out = encoder(input_ids=ids, attention_mask=seen)
        if self.pooling == "pooler":
            pooled = out.pooler_output if hasattr(out, "pooler_output") else encoder.pooler(out.last_hidden_state)
        elif self.pooling == "cls":
            pooled = out.last_hidden_state[:, 0]
        elif mask is None:
            pooled = out.last_hidden_state.mean(1)
        else:
            real = mask.unsqueeze(-1).to(out.last_hidden_state.dtype)
            pooled = (out.last_hidden_state * real).sum(1) / real.sum(1)
        if windows is not None:
            pooled = torch.stack([part.mean(0) for part in pooled.split(windows)])
        return getattr(self, name).projection(pooled)

    def masked(self, encoder, pattern, ids, mask):
        """Dense attention's additive mask of a pattern: [batch, heads, length, length]."""
        heads, length = encoder.config.num_attention_heads, ids.shape[1]
        layout = fixed_layout(pattern, heads, self.config["max_sen_len"])
        block = torch.arange(length) // pattern["block"]
        allowed = layout[:, block][:, :, block].unsqueeze(0).expand(len(ids), -1, -1, -1)
        if mask is not None:
            allowed = allowed & mask.bool()[:, None, None, :]
        dtype = next(encoder.parameters()).dtype
        return torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)

    def forward(self, texts, numbers=None):
        """texts: {branch: (ids, mask) or (ids, mask, windows)}; numbers: [batch, columns], or of
        columns that become vectors their fields. Returns logits
        [batch, classes]."""
        parts = [self.encode(name, *texts[name]) for name in self.branches]
        if self.tabular is not None:
            parts.append(self.tabular(numbers))
        return self.fusion(torch.cat(parts, dim=-1))

    def number_loss(self, values, labels):
        """The mean over outputs and samples of a loss of numbers; the targets are made of the labels."""
        kind = self.number["loss"]
        if kind == "binary_cross_entropy":
            return self.labels_loss(values, labels)
        targets = (0.75 * labels.to(values.dtype) - 0.5).unsqueeze(1).expand_as(values)
        if kind == "squared":
            return nn.functional.mse_loss(values, targets)
        if kind == "absolute":
            return nn.functional.l1_loss(values, targets)
        if kind == "huber":
            return nn.functional.huber_loss(values, targets, delta=self.number["delta"])
        if kind == "poisson":
            return nn.functional.poisson_nll_loss(values, targets, log_input=True)
        levels = torch.tensor(self.number["levels"], dtype=torch.float32).to(values.dtype)
        return torch.maximum(levels * (targets - values), (levels - 1) * (targets - values)).mean()

    def labels_loss(self, values, labels):
        """Of several labels, each with the weight of its class where it is there: of those that are known (sum 3: not)
        the mean, by all outputs and samples."""
        sums = labels[:, None] + torch.arange(values.shape[1])[None]
        each = nn.functional.binary_cross_entropy_with_logits(
            values, (sums % 2).to(values.dtype), pos_weight=self.class_weights.to(values.dtype), reduction="none")
        return torch.where(sums == 3, 0, each).mean()

    def loss(self, logits, labels):
        """sum(weight * cross-entropy) / sum(weight), and what balances the experts. focal_gamma: focal loss, likewise
        divided by the sum of the weights."""
        weights = self.class_weights.to(logits.dtype)
        if self.number:
            return self.number_loss(logits, labels)
        if self.focal_gamma:
            log_p = nn.functional.log_softmax(logits, dim=-1).gather(1, labels[:, None]).squeeze(1)
            each = -weights[labels] * (1 - log_p.exp()) ** self.focal_gamma * log_p
            loss = each.sum() / weights[labels].sum()
        else:
            loss = nn.functional.cross_entropy(logits, labels, weight=weights, label_smoothing=self.label_smoothing)
        for name in self.branches:
            spec = encoder_spec(self.config, name)
            for i in expert_layers(spec):
                experts = getattr(self, name).encoder.layer[i].experts
                loss = loss + spec.get("router_aux_loss_coef", 0.01) * experts.balance
        return loss

    def dropped(self):
        """Tokens of the last call that no expert took, over all layers."""
        return sum(module.dropped for module in self.modules() if isinstance(module, Experts))


def pad(rows, pad_id):
    """Lists of token ids -> (ids [n, longest], mask or None when nothing was padded)."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([list(row) + [pad_id] * (longest - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    if int(lengths.min()) == longest:
        return ids, None
    return ids, (torch.arange(longest)[None, :] < lengths[:, None]).to(torch.long)


def scale_of(largest):
    """Scales of int8 rows: largest / 127 in fp32, rounded to 16 significant bits, ties to even; 0 for rows that are
    practically 0 (src/numbers/quantized.h)."""
    largest = largest.float()
    bits = (largest / 127.0).view(torch.int32)
    rounded = ((bits + 0x7F + ((bits >> 8) & 1)) & ~0xFF).view(torch.float32)
    return torch.where(largest < 2.0**-100, torch.zeros_like(rounded), rounded)


def fake_quantize(x, seen=None):
    """Rows of x [..., width] rounded to int8 multiples of their scales; the gradient passes as if they were not. seen:
    a list that gets the integers."""
    rows = x.reshape(-1, x.shape[-1])
    scale = scale_of(rows.detach().abs().amax(-1))
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))  # rows of 0 stay 0
    zeros = torch.zeros(len(rows), dtype=torch.int32)
    if seen is not None:
        seen.append(torch.clamp(torch.round(rows.detach() * (1 / safe)[:, None]), -127, 127).to(torch.int8))
    return torch.fake_quantize_per_channel_affine(rows, safe, zeros, 0, -127, 127).reshape(x.shape)


class QuantizedLinear(nn.Linear):
    """Quantises the weight by output and its input by token. noise: on the input, relative to each token's largest
    element; seen: as above."""

    noise, seen = 0.0, None

    def forward(self, x):
        if self.noise:
            x = x + self.noise * x.abs().amax(-1, keepdim=True) * (2 * torch.rand_like(x) - 1)
        return nn.functional.linear(fake_quantize(x, self.seen), fake_quantize(self.weight), self.bias)


class QuantizedEmbedding(nn.Embedding):
    def forward(self, ids):
        return nn.functional.embedding(ids, fake_quantize(self.weight), self.padding_idx)


def quantize_encoders(model):
    """Turns the encoders' linear layers and tables into quantised ones, in place: `trident train --quantize int8`.
    Returns the linear layers."""
    layers = []
    for name in model.branches:
        for module in getattr(model, name).modules():
            if type(module) is nn.Linear:
                module.__class__ = QuantizedLinear
                layers.append(module)
            elif type(module) is nn.Embedding:
                module.__class__ = QuantizedEmbedding
    return layers


NO_DECAY = ("bias", "LayerNorm.weight", "norm.weight")


class Lamb(torch.optim.Optimizer):
    """LAMB (You et al., 2020, algorithm 2), with the moments corrected for their beginning at 0. Groups with
    `adapts` False have the trust ratio 1."""

    def __init__(self, groups, lr, betas, eps):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "adapts": True})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                m, v = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                r = (m / (1 - beta1 ** state["step"])) / ((v / (1 - beta2 ** state["step"])).sqrt() + group["eps"])
                r += group["weight_decay"] * p
                norms = p.norm().item(), r.norm().item()
                ratio = norms[0] / norms[1] if group["adapts"] and all(norms) else 1.0
                p.sub_(r, alpha=group["lr"] * ratio)


def make_optimizer(model, lr, weight_decay, no_decay=NO_DECAY, recipe=None, **options):
    """recipe["optimizer"], else AdamW; a parameter whose name contains one of no_decay does not decay."""
    recipe = {"optimizer": "adamw", "momentum": 0.9, "adam_eps": 1e-8, **(recipe or {})}
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        ours = next(iter(logical(name, parameter)))
        (plain if any(pattern in ours for pattern in no_decay) else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    if recipe["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=recipe["momentum"], nesterov=recipe.get("nesterov", False))
    if recipe["optimizer"] == "lamb":
        groups[1]["adapts"] = False
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "lamb": Lamb}[recipe["optimizer"]]
    return kind(groups, lr=lr, betas=(0.9, 0.999), eps=recipe["adam_eps"], **options)


def rate_factor(step, warmup, total):
    """Factor on the learning rate of the step with 0-based index `step`: transformers'
    get_linear_schedule_with_warmup."""
    if step < warmup:
        return step / max(1, warmup)
    return max(0.0, (total - step) / max(1, total - warmup))


def parameter_count(model):
    return sum(math.prod(p.shape) for p in model.parameters())
