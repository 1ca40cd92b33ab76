"""Label Studio's protocol for models: it asks for predictions, and the server answers with regions and relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from relatum.data.formats.label_studio.labeling import LabelingConfig
from relatum.data.formats.label_studio.writing import make_prediction
from relatum.errors import FormatError
from relatum.extractor.result import Extraction
from relatum.web.guard import LOG
from relatum.web.limits import Refusal
from relatum.web.served import ServedModel, work_on


class LabelStudioMessage(BaseModel):
    """A message that Label Studio sends. It has more keys than are read, such as a token, which are not kept."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class SetupRequest(LabelStudioMessage):
    """Sent when a project is connected, and whenever it looks at its models."""

    config: str = Field(alias="schema")


class Task(LabelStudioMessage):
    data: dict[str, Any]


class PredictRequest(LabelStudioMessage):
    tasks: list[Task]
    label_config: str


class WebhookRequest(LabelStudioMessage):
    action: str | None = None


@dataclass(frozen=True, slots=True)
class LabelStudioBackend:
    """A model as Label Studio asks for it; entities and relations below the threshold are left out."""

    model: ServedModel
    threshold: float | None = None

    @property
    def version(self) -> str:
        """The version of the model. With another threshold it is another one, or Label Studio would not ask again."""
        version = self.model.extractor.version or self.model.name
        return version if self.threshold is None else f"{version}-above-{self.threshold:g}"

    def setup(self, asked: SetupRequest) -> dict[str, Any]:
        """Check that the project offers labels that the model knows."""
        config, schema = _parse(asked.config), self.model.extractor.schema
        missing = [label for label in schema.entity_types if label not in config.labels]
        missing += [name for name in schema.relation_names if name not in config.relations]
        if len(missing) == len(schema.entity_types) + len(schema.relation_names):
            known = ", ".join(missing)
            raise _refuse(f"the labelling configuration offers no label of the model; add some to the project: {known}")
        if missing:
            LOG.info("the labelling configuration does not offer %s, which will be left out", ", ".join(missing))
        return {"model_version": self.version, "left_out": missing}

    async def predict(self, asked: PredictRequest) -> dict[str, Any]:
        """Return a prediction for each task, in their order; an error for a task without a text."""
        config = _parse(asked.label_config)
        texts = [task.data.get(config.key) for task in asked.tasks]
        readable = [text for text in texts if isinstance(text, str)]
        found = await self.model.read(readable, self.threshold)
        return await work_on(sum(map(len, readable)), lambda: self._answer(texts, found, config))

    def _answer(self, texts: Sequence[object], found: Sequence[Extraction], config: LabelingConfig) -> dict[str, Any]:
        extractions = iter(found)
        results: list[Mapping[str, Any]] = []
        left_out: Counter[str] = Counter()
        for text in texts:
            if not isinstance(text, str):  # without "result", Label Studio stores no prediction, and logs the error
                results.append({"error": "the task has no string under the key that <Text> names"})
                continue
            prediction, missing = make_prediction(next(extractions).document, config, self.version)
            left_out.update(missing)
            results.append(prediction)
        if len(found) < len(texts):
            LOG.warning(
                "%d of %d tasks have no text under the key that <Text> names", len(texts) - len(found), len(texts)
            )
        if left_out:
            counts = ", ".join(f"{times} {label}" for label, times in left_out.most_common())
            LOG.info("left out, as the labelling configuration does not offer these labels: %s", counts)
        return {"results": results, "model_version": self.version, "left_out": dict(left_out)}

    def acknowledge(self, asked: WebhookRequest) -> dict[str, Any]:
        """Acknowledge an event. Nothing is learned from it, so a request for training is refused."""
        if asked.action == "START_TRAINING":
            raise _refuse("the server does not train; export the project as JSON, and give the file to relatum train")
        return {"status": "ignored"}


def _parse(config: str) -> LabelingConfig:
    try:
        return LabelingConfig.parse(config)
    except FormatError as error:
        raise _refuse(str(error)) from None


def _refuse(message: str) -> Refusal:
    """Make a refusal that is also logged, since Label Studio shows only the status of an answer."""
    LOG.warning("%s", message)
    return Refusal("invalid", message)
