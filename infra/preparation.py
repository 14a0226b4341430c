"""What has to be in place before a synth; it needs no CDK, so a mistake shows at once."""

from infra.build_layers import stage_podferry_layer
from infra.catalog import FUNCTIONS, WORKFLOWS
from infra.sources import Sources, Target


def prepare(sources: Sources, target: Target) -> None:
    """Check what is written and built, and stage our own layer.

    Raises:
        SourcesIncompleteError: something is not written or not built.
        LayerBuildError: the boot script is not there.
    """
    sources.require_written(
        tuple(spec.name for spec in FUNCTIONS), tuple(spec.name for spec in WORKFLOWS)
    )
    stage_podferry_layer(sources)
    sources.require_built(target)
