"""One peer of bench/serve.py in its own process: reads cases as JSON lines, runs them, answers their times.

    python bench/serve_peers.py PEER MODEL_FOLDER THREADS

MODEL_FOLDER is a Hugging Face folder of the encoder, loaded twice: both texts have encoders of the same size and their
own weights in memory. Batches are assembled and padded before the clock starts; the padding is to the longest text of
the batch, with an attention mask. CTranslate2 takes lists of ids and pads them itself.
"""
import json
import os
import statistics
import sys
import tempfile
import time

WARMUP, PASSES, LONG_ENOUGH = 1, 2, 0.3  # passes; seconds
TEXTS = 2


def onnx_file(model, folder, name="encoder.onnx"):
    """The encoder with its pooler, exported as users do and with ONNX Runtime's fusions for BERT."""
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    encoder = AutoModel.from_pretrained(model, attn_implementation="eager").eval()
    plain, path = os.path.join(folder, "plain.onnx"), os.path.join(folder, name)
    sample = torch.ones(2, 16, dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.encoder(input_ids=input_ids, attention_mask=attention_mask,
                                token_type_ids=token_type_ids).pooler_output

    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(Pooled(), (sample, sample, sample * 0), plain, input_names=names, output_names=["pooled"],
                      dynamic_axes={name: axes for name in names}, opset_version=17, dynamo=False)
    config = encoder.config
    fused = optimizer.optimize_model(plain, model_type="bert", num_heads=config.num_attention_heads,
                                     hidden_size=config.hidden_size)
    print("fused:", fused.get_fused_operator_statistics(), file=sys.stderr)
    fused.save_model_to_file(path)
    return path, plain


def onnxruntime_runner(model, threads, folder, int8):
    import onnxruntime

    path, _ = onnx_file(model, folder)
    if int8:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        small = os.path.join(folder, "int8.onnx")
        quantize_dynamic(path, small, weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        path = small
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for _ in range(TEXTS)]
    return padded, lambda text, batch: sessions[text].run(None, batch)


def openvino_runner(model, threads, folder):
    import openvino

    _, plain = onnx_file(model, folder)
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    requests = [core.compile_model(plain, "CPU", settings).create_infer_request() for _ in range(TEXTS)]
    return padded, lambda text, batch: requests[text].infer(batch)


def ctranslate2_runner(model, threads, folder, kind):
    import ctranslate2

    path = os.path.join(folder, "ct2")
    ctranslate2.converters.TransformersConverter(model).convert(path, quantization=kind)
    encoders = [ctranslate2.Encoder(path, device="cpu", compute_type=kind, inter_threads=1, intra_threads=threads)
                for _ in range(TEXTS)]
    return as_lists, lambda text, batch: encoders[text].forward_batch(batch)


def torch_runner(model, threads, dtype):
    import torch
    from transformers import AutoModel

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    encoders = [AutoModel.from_pretrained(model, attn_implementation="sdpa", dtype=getattr(torch, dtype)).eval()
                for _ in range(TEXTS)]

    def assemble(ids):
        return {name: torch.from_numpy(value) for name, value in padded(ids).items()}

    return assemble, lambda text, batch: encoders[text](**batch).pooler_output


def padded(ids):
    import numpy

    longest = max(map(len, ids))
    out = {name: numpy.zeros((len(ids), longest), dtype=numpy.int64)
           for name in ("input_ids", "attention_mask", "token_type_ids")}
    for row, tokens in enumerate(ids):
        out["input_ids"][row, :len(tokens)] = tokens
        out["attention_mask"][row, :len(tokens)] = 1
    return out


def as_lists(ids):
    return ids


PEERS = {
    "onnxruntime": lambda *at: onnxruntime_runner(*at, int8=False),
    "onnxruntime-int8": lambda *at: onnxruntime_runner(*at, int8=True),
    "openvino": openvino_runner,
    "ctranslate2": lambda *at: ctranslate2_runner(*at, "float32"),
    "ctranslate2-int8": lambda *at: ctranslate2_runner(*at, "int8_float32"),
    "torch": lambda model, threads, _: torch_runner(model, threads, "float32"),
    "torch-bf16": lambda model, threads, _: torch_runner(model, threads, "bfloat16"),
}


def measure(assemble, run, rows, ids):
    """ids[row][text]; median of a pass over all batches of `rows` rows and of a batch, and the least CPU time of a
    pass."""
    batches = [[assemble([row[text] for row in ids[at:at + rows]]) for text in range(TEXTS)]
               for at in range(0, len(ids), rows)]
    passes, used, times, begun = [], [], [], None
    for number in range(WARMUP + 100000):
        begin, cpu = time.perf_counter(), time.process_time()
        for batch in batches:
            start = time.perf_counter()
            for text in range(TEXTS):
                run(text, batch[text])
            if number >= WARMUP:
                times.append(time.perf_counter() - start)
        if number < WARMUP:
            continue
        begun = begun or begin
        passes.append(time.perf_counter() - begin)
        used.append(time.process_time() - cpu)
        if len(passes) >= PASSES and time.perf_counter() - begun > LONG_ENOUGH:
            break
    return {"pass_ms": 1e3 * statistics.median(passes), "cpu_ms": 1e3 * min(used),
            "batch_ms": 1e3 * statistics.median(times)}


def main():
    peer, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")  # libraries print to stdout
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        assemble, run = PEERS[peer](model, threads, folder)
        print(json.dumps({"ready": peer}), file=answers, flush=True)
        for line in sys.stdin:
            case = json.loads(line)
            print(json.dumps(measure(assemble, run, case["rows"], case["ids"])), file=answers, flush=True)


main()
