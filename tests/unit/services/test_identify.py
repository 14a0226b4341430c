import pytest

from podferry.domain.account import USER_SCOPES, Scope
from podferry.domain.errors import TokenInvalidError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.principal import PrincipalKind
from podferry.http.identity import from_json, to_json
from podferry.ports.store import Create
from podferry.services.identify import token_digest
from tests.unit.http.clouds import an_offer
from tests.unit.services.support import World

MACHINE_ID = "mach_01j00000000000000000000001"
BOOT, OWN = f"pfb_{MACHINE_ID}_{'b' * 43}", f"pfm_{MACHINE_ID}_a_b-{'m' * 39}"


def a_machine(world: World, *, state: MachineState, token: str | None) -> Machine:
    machine = Machine(
        id=MACHINE_ID,
        account_id="acct_1",
        created_at=world.clock.now(),
        pod_id="pod_1",
        operation_id="op_1",
        offer=an_offer(),
        stamp="pf-00000000-0000000000000",
        epoch=1,
        state=state,
        boot_token_sha256=token_digest(BOOT),
        token_sha256=None if token is None else token_digest(token),
    )
    world.store.commit(Create(machine))
    return machine


def test_an_accounts_key_stands_for_its_account_and_scopes() -> None:
    world = World()
    account, key, token = world.accounts.create("acme")
    who = world.identify.who(token)
    assert (who.kind, who.account_id, who.key_id) == (PrincipalKind.ACCOUNT, account.id, key.id)
    assert who.scopes == USER_SCOPES
    assert not who.may(Scope.ADMIN)


def test_the_operator_may_everything_and_has_no_account() -> None:
    who = World().identify.who("pf_admin_test")
    assert (who.kind, who.account_id) == (PrincipalKind.OPERATOR, None)
    assert all(who.may(scope) for scope in Scope)


def test_boot_and_machine_tokens_stand_for_the_machine() -> None:
    world = World()
    a_machine(world, state=MachineState.BOOTING, token=OWN)
    boot, own = world.identify.who(BOOT), world.identify.who(OWN)
    assert (boot.kind, boot.machine_id) == (PrincipalKind.BOOT, MACHINE_ID)
    assert (own.kind, own.machine_id, own.account_id) == (
        PrincipalKind.MACHINE,
        MACHINE_ID,
        "acct_1",
    )
    assert not boot.scopes | own.scopes


def test_a_machine_without_a_registered_token_is_known_by_its_boot_token_only() -> None:
    world = World()
    a_machine(world, state=MachineState.PROVISIONING, token=None)
    assert world.identify.who(BOOT).kind == PrincipalKind.BOOT
    with pytest.raises(TokenInvalidError):
        world.identify.who(OWN)


def test_promise_05_a_machine_that_is_gone_is_still_known_so_that_it_can_be_told_to_end() -> None:
    world = World()
    a_machine(world, state=MachineState.RELEASED, token=OWN)
    assert world.identify.who(OWN).machine_id == MACHINE_ID


def test_a_boot_token_does_not_pass_as_a_machine_token() -> None:
    world = World()
    a_machine(world, state=MachineState.BOOTING, token=OWN)
    with pytest.raises(TokenInvalidError):
        world.identify.who(BOOT.replace("pfb_", "pfm_"))


def test_a_token_with_one_letter_changed_is_unknown() -> None:
    world = World()
    _, _, token = world.accounts.create("acme")
    other = token[:-1] + ("A" if token[-1] != "A" else "B")
    with pytest.raises(TokenInvalidError):
        world.identify.who(other)


@pytest.mark.parametrize(
    "token",
    ["", "pf_", "pf__", "pf_x_y", "pf_admin_", "pf_admin_other", "pfb_", "pfm_mach_", "pfm_a_b_c",
     f"pfm_{MACHINE_ID}", f"pfm_{MACHINE_ID}_", f"pfm_{MACHINE_ID}_x", "sk-123",
     "pf_01j00000000000000000000001_x"],
)  # fmt: skip
def test_malformed_and_unknown_tokens_look_the_same(token: str) -> None:
    with pytest.raises(TokenInvalidError, match="not known"):
        World().identify.who(token)


def test_a_revoked_key_is_refused_from_that_moment() -> None:
    world = World()
    account, _, _ = world.accounts.create("acme")
    key, token = world.keys.create(account.id, "ci", [Scope.PODS_READ])
    world.keys.revoke(account.id, key.id)
    with pytest.raises(TokenInvalidError, match="revoked"):
        world.identify.who(token)


def test_who_it_is_survives_the_way_through_the_gateway() -> None:
    world = World()
    a_machine(world, state=MachineState.READY, token=OWN)
    _, _, token = world.accounts.create("acme")
    for text in (token, OWN, BOOT, "pf_admin_test"):
        who = world.identify.who(text)
        assert from_json(to_json(who)) == who
