"""Names of providers in requests: one that there is not would only be found out by waiting."""

from collections.abc import Sequence

from podferry.domain.errors import FieldProblem, InvalidRequestError
from podferry.domain.offer import Requirements
from podferry.http.call import Call


def with_known_providers(call: Call, wanted: Requirements) -> Requirements:
    """The `requirements` of a body as they are.

    Raises:
        InvalidRequestError: they name a provider that there is not; says which there are.
    """
    require_known(call, wanted.providers, "/requirements/providers/")
    return wanted


def require_known(call: Call, names: Sequence[str], where: str) -> None:
    """Raise InvalidRequestError unless there are providers of all these names.

    `where` is the place of the names, without the number that each has there.
    """
    problems = [
        FieldProblem(f"{where}{number}", problem)
        for number, name in enumerate(names)
        if (problem := call.use.clouds.why_unknown(name))
    ]
    if problems:
        raise InvalidRequestError(problems[0].problem, fields=tuple(problems))
