"""The functions and workflows of the control plane, as data: one place to see who may do what."""

from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """What a function may touch; each also brings the settings that name the thing."""

    READ_TABLE = "read_table"
    WRITE_TABLE = "write_table"
    READ_OPERATOR_KEY = "read_operator_key"
    READ_PROVIDER_KEYS = "read_provider_keys"
    KEEP_OWN_KEYS = "keep_own_keys"
    KEEP_SECRETS = "keep_secrets"
    READ_SECRETS = "read_secrets"
    BEGIN_OPERATIONS = "begin_operations"
    RECONCILE = "reconcile"
    ANSWER_WORKFLOWS = "answer_workflows"
    LEND_OBJECTS = "lend_objects"
    VERIFY_OBJECTS = "verify_objects"
    COPY_OBJECTS = "copy_objects"
    COLLECT_GARBAGE = "collect_garbage"
    SHIP_AGENT = "ship_agent"
    KNOW_ADDRESS = "know_address"
    KNOW_REGISTRIES = "know_registries"
    KNOW_RECONCILER = "know_reconciler"
    WAKE_RECONCILER = "wake_reconciler"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One directory below `functions/` and its limits."""

    name: str
    purpose: str
    memory_mib: int
    timeout_seconds: int
    rights: frozenset[Right]

    @property
    def title(self) -> str:
        """The name in CamelCase, as construct ids and substitutions spell it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(frozen=True, slots=True)
class WorkflowSpec:
    """One file below `infra/workflows/` and when its failures ring an alarm.

    A launch may fail because nothing is for rent, so one failure is no news. A failed stop keeps a
    machine that costs money, a failed proof is a snapshot that cannot be restored.
    """

    name: str
    failures_per_hour_that_ring: int

    @property
    def title(self) -> str:
        return self.name.capitalize()

    @property
    def setting(self) -> str:
        """The environment variable that carries its ARN."""
        return f"{self.name.upper()}_WORKFLOW_ARN"


# An HTTP API gives up after 30 seconds; a function behind it ends by itself before that.
BEHIND_HTTP_SECONDS = 29

FUNCTIONS = (
    FunctionSpec(
        "api",
        "User API",
        512,
        BEHIND_HTTP_SECONDS,
        frozenset({Right.WRITE_TABLE, Right.BEGIN_OPERATIONS, Right.ANSWER_WORKFLOWS}),
    ),
    FunctionSpec(
        "market",
        "Offers of the GPU providers",
        512,
        BEHIND_HTTP_SECONDS,
        frozenset({Right.WRITE_TABLE, Right.READ_PROVIDER_KEYS}),
    ),
    FunctionSpec(
        "provider_keys",
        "Accounts' own keys at the GPU providers",
        512,
        BEHIND_HTTP_SECONDS,
        frozenset({Right.WRITE_TABLE, Right.READ_PROVIDER_KEYS, Right.KEEP_OWN_KEYS}),
    ),
    # A root may be 64 MiB and takes six times that while it is read, and two are compared.
    FunctionSpec(
        "library",
        "Keeps versions and reads in snapshots for users",
        2048,
        BEHIND_HTTP_SECONDS,
        frozenset({Right.WRITE_TABLE, Right.VERIFY_OBJECTS, Right.BEGIN_OPERATIONS}),
    ),
    FunctionSpec(
        "secrets",
        "Secrets of accounts",
        512,
        BEHIND_HTTP_SECONDS,
        frozenset({Right.WRITE_TABLE, Right.KEEP_SECRETS}),
    ),
    FunctionSpec(
        "agent_api",
        "API of the agents on the machines",
        512,
        BEHIND_HTTP_SECONDS,
        frozenset(
            {
                Right.WRITE_TABLE,
                Right.ANSWER_WORKFLOWS,
                Right.LEND_OBJECTS,
                Right.READ_SECRETS,
                Right.WAKE_RECONCILER,
            }
        ),
    ),
    FunctionSpec(
        "authorizer",
        "Tells who a token belongs to",
        512,
        10,
        frozenset({Right.READ_TABLE, Right.READ_OPERATOR_KEY}),
    ),
    FunctionSpec("docs", "API description", 512, 15, frozenset()),
    FunctionSpec(
        "steps_pods",
        "Workflow steps on pods and their commands",
        512,
        60,
        frozenset({Right.WRITE_TABLE, Right.BEGIN_OPERATIONS, Right.ANSWER_WORKFLOWS}),
    ),
    FunctionSpec(
        "steps_machines",
        "Workflow steps that rent machines and give them up",
        512,
        120,
        frozenset(
            {
                Right.WRITE_TABLE,
                Right.READ_PROVIDER_KEYS,
                Right.SHIP_AGENT,
                Right.ANSWER_WORKFLOWS,
                Right.KNOW_ADDRESS,
                Right.KNOW_REGISTRIES,
                Right.KNOW_RECONCILER,
            }
        ),
    ),
    FunctionSpec(
        "steps_snapshots",
        "Workflow steps that verify and commit captures",
        1024,
        300,
        frozenset(
            {
                Right.WRITE_TABLE,
                Right.VERIFY_OBJECTS,
                Right.ANSWER_WORKFLOWS,
                Right.KNOW_RECONCILER,
            }
        ),
    ),
    # Memory: eight packs of 17 MiB to read from, four to write, and the entries of 60 pages. The
    # time is all that a function may have; the workflow goes on where a run ends.
    FunctionSpec(
        "steps_sharing",
        "Workflow steps that scan, seal and copy what is shared",
        2048,
        900,
        frozenset(
            {
                Right.WRITE_TABLE,
                Right.COPY_OBJECTS,
                Right.ANSWER_WORKFLOWS,
                Right.KNOW_RECONCILER,
            }
        ),
    ),
    FunctionSpec(
        "reconciler",
        "Finds operations whose workflow ended early",
        512,
        55,
        frozenset({Right.WRITE_TABLE, Right.BEGIN_OPERATIONS, Right.RECONCILE}),
    ),
    FunctionSpec(
        "autosave",
        "Begins saves of running pods and thins out old ones",
        512,
        55,
        frozenset({Right.WRITE_TABLE}),
    ),
    FunctionSpec(
        "sweeper",
        "Finds idle pods, lost machines and machines that nobody knows",
        512,
        115,
        frozenset({Right.WRITE_TABLE, Right.READ_PROVIDER_KEYS, Right.BEGIN_OPERATIONS}),
    ),
    FunctionSpec(
        "meter",
        "Charges what machines cost",
        512,
        55,
        frozenset({Right.WRITE_TABLE}),
    ),
    # A root may be 64 MiB and takes six times that while it is read; two are kept. The time is all
    # that a function may have, and the next run goes on where it ends.
    FunctionSpec(
        "garbage",
        "Deletes snapshot objects that nothing needs any more",
        2048,
        900,
        frozenset({Right.WRITE_TABLE, Right.COLLECT_GARBAGE}),
    ),
)

# The functions that the minutely rule calls while anything runs; a round ends before the next but
# one begins.
ROUNDS = ("reconciler", "autosave", "sweeper", "meter")

# The functions that workflow files call, as `${StepsPodsArn}` and so on.
STEP_FUNCTIONS = ("steps_pods", "steps_machines", "steps_snapshots", "steps_sharing")

WORKFLOWS = (
    WorkflowSpec("launch", failures_per_hour_that_ring=5),
    WorkflowSpec("stop", failures_per_hour_that_ring=1),
    WorkflowSpec("move", failures_per_hour_that_ring=1),
    WorkflowSpec("proof", failures_per_hour_that_ring=1),
    WorkflowSpec("share", failures_per_hour_that_ring=1),
)

METRIC_NAMESPACE = "Podferry"
