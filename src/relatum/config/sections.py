"""Every setting there is, with its type, its default and what it means.

To add a section, write one class and name it in `Config`: files, overrides, `relatum config show` and the error
messages follow. A key that may be left unset has None as its default, since TOML has no word for it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from relatum.config.inputs import DataConfig, TextConfig
from relatum.config.values import (
    Cells,
    EvenWidth,
    Fraction,
    InnerWidth,
    Layers,
    NotNegative,
    OddSize,
    Positive,
    PositiveNumber,
    Probability,
    Section,
    Share,
    Width,
    Words,
    distinct,
    not_fp16,
)


class TaggingConfig(Section):
    """Conversion of annotations to labels; the defaults are the paper's formulation."""

    kind: Literal["words", "spans"] = Field(
        default="words",
        description='The formulation. "words" is the paper\'s: each word has one tag, each pair of words one relation. '
        '"spans" marks each entity and relation by cells of its own, so that entities may nest and overlap, and a pair '
        "may have several relations.",
    )
    scheme: Literal["bio", "bioes"] = Field(default="bio", description="The tags that mark entities in a sentence.")
    fill: Literal["entire", "lower", "upper"] = Field(
        default="entire", description="The part of the relation table that is filled: all of it, or one triangle."
    )
    cells: Literal["entity", "last"] = Field(
        default="entity",
        description="The cells that carry a relation: all words of both entities, or only the last word of each.",
    )
    directed: bool = Field(
        default=True, description="Use a tag for each direction of a relation; if false, one tag for both."
    )
    conflicts: Literal["last", "first"] = Field(
        default="last", description="The relation that is written if two need the same cells of the table."
    )


class EncoderConfig(Section):
    """The language model whose vectors and attention maps the model reads (paper, sections 4.1 and 4.4)."""

    kind: Literal["huggingface", "elmo", "none"] = Field(
        default="huggingface", description="A Hugging Face encoder, an ELMo in its published files, or none."
    )
    name: str = Field(
        default="all-minilm-l6-v2",
        description="The encoder: one that comes with relatum or was fetched (relatum encoder), a folder, or a name on "
        "the model hub.",
    )
    beside: Annotated[tuple[str, ...], AfterValidator(distinct)] = Field(
        default=(),
        description="Further Hugging Face encoders; their vectors and attention maps stand beside the first's.",
    )
    n_layers: Layers = Field(
        default=4,
        description="The number of last layers that are averaged into the vector of a piece. An encoder in "
        "encoder.beside with fewer layers uses all of them.",
    )
    mixing: Literal["mean", "learned"] = Field(
        default="mean",
        description="The vector of a piece: the mean of the last n_layers, or a learned weighted sum of all layers, "
        "embeddings included.",
    )
    pooling: Literal["mean", "first"] = Field(
        default="mean",
        description="The vector of a word: the mean of its pieces' vectors, or the vector of its first piece.",
    )
    attention_pooling: Literal["sum", "mean"] = Field(
        default="sum",
        description="The attention between two words: the sum over their pieces, or a mean over the pieces of the "
        "attending word, with which a row sums to at most 1.",
    )
    context: NotNegative = Field(
        default=0,
        description="The number of words of the same text, before and after a sentence, that the encoder reads with "
        "it. Vectors and attention maps are only made for the sentence itself.",
    )
    store: Literal["inside", "name"] = Field(
        default="inside", description="Save the encoder inside the model, or only its name and the hash of its weights."
    )
    cache: Literal["memory", "disk", "none"] = Field(
        default="memory", description="The place to keep the features of a frozen encoder during training."
    )
    cache_path: str | None = Field(
        default=None, description="The folder of the cache on disk; if unset, one in the user's cache folder."
    )
    cache_limit_mib: Positive = Field(
        default=8192, description="The most MiB of a cache. Features beyond it are computed each time, with a message."
    )
    tuning: Literal["frozen", "lora", "full"] = Field(
        default="frozen",
        description="The part of a Hugging Face encoder that is trained: nothing, low-rank adapters beside its linear "
        "layers (extra train), or all its weights.",
    )
    adapters: str | None = Field(
        default=None,
        description="Adapters to be added to a frozen encoder: those of a trained model (its name or folder), or a "
        "folder of peft's files.",
    )
    lora_rank: Width = Field(default=8, description="The rank of adapters.")
    lora_alpha: PositiveNumber = Field(
        default=16.0, description="The output of an adapter is multiplied by lora_alpha / lora_rank."
    )
    lora_dropout: Fraction = Field(default=0.0, description="The dropout on the input of adapters.")
    lora_modules: Annotated[tuple[str, ...], AfterValidator(distinct), Field(min_length=1)] | None = Field(
        default=None,
        description="The linear layers that get adapters, by the last parts of their names, such as query and value. "
        "If unset, all but the embeddings'.",
    )
    attention_gradients: bool = Field(default=True, description="Train a tuned encoder through its attention maps too.")
    gradient_checkpointing: bool = Field(
        default=False,
        description="Compute the layers of a tuned encoder again for their gradients: a third more time, and a "
        "fraction of the memory.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all encoders; empty if there is no encoder."""
        return () if self.kind == "none" else (self.name, *self.beside)


class WordsConfig(Section):
    """Word vectors (paper, section 4.1)."""

    path: str | None = Field(
        default=None,
        description="A text file of word vectors in GloVe's form, or compressed (.gz). If unset, there are none.",
    )
    lower: bool = Field(default=True, description="Look up words in lower case.")
    unknown: Literal["learned", "zero"] = Field(
        default="learned", description="The vector of a word that is not in the file."
    )


class CharactersConfig(Section):
    """Vectors of words made from their characters (paper, section 4.1)."""

    kind: Literal["lstm", "none"] = Field(
        default="lstm", description="The character encoder: a bidirectional LSTM, or none."
    )
    width: EvenWidth = Field(
        default=30, description="The width of a character's vector, and of the vector of a word that is made from them."
    )


class ModelConfig(Section):
    """The stack of table-sequence layers (paper, section 4)."""

    width: Width = Field(
        default=200, description="The width H of the sequence, and of the table unless table.width is set."
    )
    n_layers: Layers = Field(default=3, description="The number of stacked layers (L).")
    share_layers: bool = Field(default=False, description="Use the same parameters in all layers.")
    interaction: Literal["both", "table-to-sequence", "sequence-to-table", "none"] = Field(
        default="both",
        description="The encoder that reads the other. A sequence encoder that does not read the table uses scaled "
        "dot-product attention; a table encoder that does not read the sequence gets S_0 in every layer.",
    )
    entity_source: Literal["sequence", "diagonal"] = Field(
        default="sequence", description="The place to read entities from: the sequence, or the diagonal of the table."
    )
    dropout: Fraction = Field(default=0.5, description="The dropout during training.")
    initialisation: Literal["authors", "torch"] = Field(
        default="authors",
        description="The first values of characters, unknown words, the projection to S_0 and the scorers: as in the "
        "authors' code, or torch's defaults.",
    )


class TableConfig(Section):
    """The table encoder (paper, section 4.2, appendices A and D)."""

    kind: Literal["md-gru", "cnn", "none"] = Field(
        default="md-gru", description="The table encoder: multi-dimensional recurrent, convolutional, or none."
    )
    width: Width | None = Field(
        default=None, description="The width of the table's cells; if unset, model.width. A narrower table is faster."
    )
    directions: Annotated[
        tuple[Literal["nw", "ne", "sw", "se"], ...], AfterValidator(distinct), Field(min_length=1)
    ] = Field(
        default=("nw", "se"),
        description="The corners from which recurrent networks run over the table; nw is row⁺col⁺ in the paper, ne "
        "row⁺col⁻, sw row⁻col⁺ and se row⁻col⁻. The table's width is divided among them.",
    )
    predecessors: Annotated[tuple[Literal["below", "up", "left"], ...], AfterValidator(distinct)] = Field(
        default=("below", "up", "left"),
        description="The cells whose states a cell reads: in the layer below, in the row before (up), in the column "
        "before (left).",
    )
    removed: Literal["zeroed", "dropped"] = Field(
        default="zeroed",
        description="A predecessor that is not read: set its state to zero but keep its gate, or remove both.",
    )
    reset: Literal["after", "before"] = Field(
        default="after", description="Apply the reset gate to the states after their projection, or before."
    )
    kernel_size: OddSize = Field(default=3, description="The size of the convolution of a CNN.")
    attention_maps: bool = Field(
        default=True, description="Give the encoder's attention maps, if it has any, to the table."
    )
    pairing: Literal["two-step", "one-step"] = Field(
        default="two-step",
        description="The layer where attention maps join a pair of words: the second, or the first (equation 11).",
    )


class SequenceConfig(Section):
    """The sequence encoder (paper, section 4.3)."""

    kind: Literal["attention", "none"] = Field(
        default="attention", description="The sequence encoder: self-attention, or none."
    )
    n_attention_heads: Width = Field(default=8, description="The number of attention heads in a layer.")
    feedforward_width: InnerWidth = Field(default=800, description="The inner width of the feed-forward network.")
    output_activation: Literal["relu", "none"] = Field(
        default="relu", description="The activation after the output projection of the attention."
    )


class DecodingConfig(Section):
    """Decoding of probabilities into entities and relations (paper, section 5)."""

    opposite: Literal["no-relation", "ignored"] = Field(
        default="no-relation",
        description="The vote of tags of the opposite direction when a pair is decided: for no relation, as behind the "
        "published numbers, or for nothing, as in the paper's text.",
    )
    entities: Literal["rules", "viterbi"] = Field(
        default="rules",
        description="The choice of the words' tags: each word's likeliest tag, read by rules, as behind the published "
        "numbers; or the likeliest sequence in which every entity has tags of one type.",
    )
    overlap: Literal["none", "nested", "any"] = Field(
        default="any",
        description="Entities that may share words, in span tagging: none, only one inside another, or any.",
    )
    relations_of_pair: Literal["one", "several"] = Field(
        default="several",
        description="The most relations from one entity to another, in span tagging: one, or as many as are found.",
    )
    entity_threshold: Probability | None = Field(
        default=None,
        description="The score above which an entity is found, in span tagging. If unset, the one that is best on dev, "
        "fitted at every evaluation; 0.5 without dev.",
    )
    relation_threshold: Probability | None = Field(
        default=None,
        description="The score above which a relation is found, in span tagging. If unset, the one that is best on "
        "dev, fitted at every evaluation; 0.5 without dev.",
    )
    constraints: Literal["none", "schema"] = Field(
        default="none",
        description="The entities that a relation may connect: any, or only types that it connects in the schema. The "
        "schema is learned from train if there is no file of labels.",
    )


class TrainingConfig(Section):
    """Training of a model; the defaults are the paper's recipe (appendix C)."""

    seed: NotNegative = Field(default=0, description="The seed. The same seed gives the same model on a CPU.")
    sizes: Literal["given", "auto"] = Field(
        default="given",
        description="The values of keys that you do not set: their defaults, or values that relatum train chooses for "
        "your data and machine, as it does without --config. Such keys are steps, batches and the width of the table.",
    )
    start: str | None = Field(
        default=None,
        description="A trained model to start from: weights that fit are taken over, and sizes that you do not set.",
    )
    teachers: Annotated[tuple[str, ...], AfterValidator(distinct)] = Field(
        default=(),
        description="Trained models, by folder or name, whose probabilities are learned beside gold (distillation). "
        "The probabilities of several are averaged.",
    )
    teacher_weight: Share = Field(
        default=0.5,
        description="The share of the teachers in what is learned from an annotated sentence; the rest is gold.",
    )
    unlabelled: str | None = Field(
        default=None,
        description="Plain text from which the teachers' probabilities are learned, too, a document a line: a file "
        "(also .gz or .xz) or a folder of .txt files.",
    )
    unlabelled_sentences: Positive = Field(
        default=5000, description="The most sentences of the unlabelled text that are learned from, drawn by the seed."
    )
    steps: Positive = Field(default=20_000, description="The number of updates.")
    batch_size: Positive = Field(default=24, description="Sentences in a batch.")
    max_cells: Cells = Field(
        default=100_000,
        description="The most table cells in a batch (sentences times the square of the longest). A batch with more is "
        "made smaller.",
    )
    bucketing: bool = Field(default=True, description="Put sentences of similar length into the same batch.")
    learning_rate: PositiveNumber = Field(default=1e-3, description="Adam's learning rate after the warm-up.")
    warmup_steps: NotNegative = Field(default=1000, description="The updates during which the rate rises from 0.")
    schedule: Literal["inverse", "linear", "cosine"] = Field(
        default="inverse",
        description="The decay of the rate after the warm-up: by inverse time, or to 0 at the last step, linearly or "
        "as a cosine.",
    )
    decay_rate: Annotated[float, Field(ge=0)] = Field(
        default=0.05, description='For "inverse": the rate is divided by 1 + decay_rate × step / decay_steps.'
    )
    decay_steps: Positive = Field(default=1000, description="The number of steps in the formula of decay_rate.")
    decay_staircase: bool = Field(
        default=True, description="Change the decay only every decay_steps; if false, at every step."
    )
    encoder_learning_rate: PositiveNumber | None = Field(
        default=None,
        description="Adam's learning rate for a tuned encoder; if unset, 5e-4 for adapters and 5e-5 for all weights.",
    )
    encoder_layer_decay: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="The rate of each layer of a tuned encoder, as a share of the rate of the layer above."
    )
    encoder_warmup_steps: NotNegative | None = Field(
        default=None, description="The updates during which the rate of a tuned encoder rises. If unset, warmup_steps."
    )
    ema_decay: Fraction = Field(
        default=0.0,
        description="The decay of a moving average of all learned weights; the average is scored and saved. 0 for "
        "none. Early updates count more: the decay is at most step / (step + 9).",
    )
    clip_norm: PositiveNumber = Field(default=5.0, description="The norm to which gradients are clipped.")
    loss: Literal["sum", "mean"] = Field(
        default="sum", description="Sum the losses over words, cells and batch, or average them."
    )
    diagonal_loss: bool = Field(
        default=True, description="Include the cells on the diagonal, which have no relation, in the relation loss."
    )
    entity_weight: Annotated[float, Field(ge=0)] = Field(default=1.0, description="The weight of the entity loss.")
    relation_weight: Annotated[float, Field(ge=0)] = Field(default=1.0, description="The weight of the relation loss.")
    precision: Annotated[Literal["fp32", "bf16"], BeforeValidator(not_fp16)] = Field(
        default="fp32",
        description="The precision of products over the table in updates and evaluations on dev, and of a tuned "
        "encoder in updates. Weights, sums and scores stay in fp32. On a GPU, fp32 is computed as TF32, and bf16 is "
        "faster and takes half the memory.",
    )
    part_cells: Positive | None = Field(
        default=None,
        description="The most table cells that are computed at once. A batch with more is divided into micro-batches, "
        "whose gradients are added up. If unset, only when memory runs out.",
    )
    divergence_factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] = Field(
        default=100.0,
        description="Stop a run if the mean loss of 50 updates is this many times the lowest such mean, and above the "
        "mean of the first 50.",
    )
    evaluate_every: Positive = Field(default=500, description="The number of updates between evaluations on dev.")
    patience: Positive | None = Field(
        default=None, description="End a run after this many evaluations without a better score. If unset, never."
    )
    checkpoint_every: Positive | None = Field(
        default=None, description="The number of updates between further checkpoints. If unset, only at evaluations."
    )
    keep_checkpoints: Positive = Field(
        default=2, description="The number of checkpoints to keep, and of best models beside them."
    )
    trackers: Annotated[tuple[Literal["tensorboard", "wandb", "mlflow"], ...], AfterValidator(distinct)] = Field(
        default=(), description="Trackers to send the learning curve to; they must be installed."
    )
    dev: Literal["choose", "train"] = Field(
        default="choose",
        description="The use of the dev part: choose the best weights and calibrate scores, or train on it too. In the "
        "latter case the last weights are kept, and scores are not calibrated.",
    )
    selection: Literal["micro", "macro"] = Field(
        default="micro", description="The average of the F1 scores that chooses the best model."
    )
    selection_relations: Literal["boundaries", "strict"] = Field(
        default="boundaries", description="The relation score that chooses the best model: RE or RE+."
    )
    save_dtype: Literal["float32", "float16"] = Field(
        default="float32", description="The precision of the stored weights of a trained model."
    )


class ExtractionConfig(Section):
    """Extraction from raw text with a trained model."""

    batch_size: Positive = Field(default=32, description="Sentences in a batch.")
    max_cells: Cells = Field(
        default=32_768,
        description="The most table cells in a batch. A sentence of up to max_words words with more cells is a batch "
        "of its own.",
    )
    max_words: Words = Field(
        default=96,
        description="The longest sentence or passage that is read whole; a longer one is read in windows. A model "
        "finds less in sentences much longer than those it was trained on.",
    )
    overlap: NotNegative = Field(
        default=32, description="The number of words that neighbouring windows of a long sentence share."
    )
    trim_stops: bool = Field(
        default=True,
        description="In raw text, trim the sentence's full stop from an entity, unless it is an abbreviation's.",
    )


class EvaluationConfig(Section):
    """Scoring of predictions."""

    macro_over: Literal["gold", "schema", "all"] = Field(
        default="gold",
        description="The types in macro averages: those in gold, those of the schema, or those in gold or predictions.",
    )
    entities: Literal["predicted", "gold"] = Field(
        default="predicted",
        description="The entities to find relations between: predicted ones, or gold ones given to the model.",
    )


class Config(Section):
    """All settings."""

    text: TextConfig = TextConfig()
    data: DataConfig = DataConfig()
    tagging: TaggingConfig = TaggingConfig()
    encoder: EncoderConfig = EncoderConfig()
    words: WordsConfig = WordsConfig()
    characters: CharactersConfig = CharactersConfig()
    model: ModelConfig = ModelConfig()
    table: TableConfig = TableConfig()
    sequence: SequenceConfig = SequenceConfig()
    decoding: DecodingConfig = DecodingConfig()
    training: TrainingConfig = TrainingConfig()
    extraction: ExtractionConfig = ExtractionConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _check_together(self) -> Config:
        """Refuse settings that no network can be built from, or that do not go together."""
        width = self.model.width
        table = self.table
        n_heads = self.sequence.n_attention_heads
        n_directions = len(table.directions)
        if width % n_heads:
            raise ValueError(f"a model.width ({width}) that sequence.n_attention_heads ({n_heads}) divides")
        key, of_cells = ("model.width", width) if table.width is None else ("table.width", table.width)
        if table.kind == "md-gru" and of_cells % n_directions:
            raise ValueError(f"a {key} ({of_cells}) that the number of table.directions ({n_directions}) divides")
        self._check_encoder()
        if self.tagging.kind == "spans":
            self._check_spans()
        if table.kind == "none" and self.model.entity_source == "diagonal":
            raise ValueError('a table.kind other than "none", as model.entity_source is "diagonal"')
        if self.training.dev == "train" and self.training.patience is not None:
            raise ValueError('no training.patience, as training.dev is "train" and nothing is scored on the way')
        return self

    def _check_spans(self) -> None:
        """Refuse networks without the cells that span tagging needs."""
        if self.table.kind == "none":
            raise ValueError('a table.kind other than "none", as tagging.kind is "spans"')
        if not self.training.diagonal_loss:
            raise ValueError('a training.diagonal_loss that is true, as tagging.kind is "spans"')

    def _check_encoder(self) -> None:
        """Refuse settings that only a Hugging Face encoder has, if it is another one."""
        encoder = self.encoder
        if encoder.tuning != "frozen" and encoder.kind != "huggingface":
            raise ValueError(f'an encoder.kind "huggingface", as encoder.tuning is "{encoder.tuning}"')
        if encoder.context and encoder.kind != "huggingface":
            raise ValueError(f'an encoder.kind "huggingface", as encoder.context is {encoder.context}')
        if encoder.context and self.text.unit == "passage":
            raise ValueError('an encoder.context of 0, as text.unit is "passage" and a passage has its context inside')
        if encoder.beside:
            self._check_beside()

    def _check_beside(self) -> None:
        """Refuse encoders side by side unless they are of one kind and only read, and the first is not named again."""
        encoder = self.encoder
        for key, wanted in (("kind", "huggingface"), ("tuning", "frozen"), ("mixing", "mean")):
            if getattr(encoder, key) != wanted:
                raise ValueError(f'an encoder.{key} "{wanted}", as encoder.beside names other encoders')
        if encoder.name in encoder.beside:
            raise ValueError(f"encoders in encoder.beside that are not the first one, {encoder.name}, once more")
