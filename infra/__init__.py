"""The AWS resources of Podferry, as CDK stacks that synthesize without network or credentials."""
