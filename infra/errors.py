"""What can be wrong before a synth starts; each message says what, where and how to mend it."""


class InfraError(Exception):
    """Ends `app.py` or a build with one line."""


class NodeMissingError(InfraError):
    """The CDK's engine needs Node and none was found."""


class SourcesIncompleteError(InfraError):
    """Something that goes into an asset is not on disk."""


class ContextInvalidError(InfraError):
    """A `-c key=value` or `cdk.json` that the app does not understand."""


class LayerBuildError(InfraError):
    """The packages of a layer could not be installed."""
