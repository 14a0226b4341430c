"""Secrets of many kinds in a shared environment: none may pass silently."""

import base64
import io
import tarfile
import zipfile

from sharing_scenes import CLEAN, Owned, accept, decide, files_below, restored

from podferry.domain.share import Decision


def body(*parts: str) -> bytes:
    """Written in pieces, so that this file itself holds no secret."""
    return "".join(parts).encode()


A20, A34, A36, A40, A64 = (
    "Ab3dEfGh1jKlMn0pQrSt",
    "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "Ab3dEfGh1jKlMn0pQrStUvWxYz0123456789",
    "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    "ab" * 32,
)
PEM = base64.b64encode(bytes(range(200))).decode()

CANARIES: dict[str, bytes] = {
    "home/u/.aws/credentials": body("[default]\naws_secret_access_key=", A40),
    "opt/app/settings.py": body("KEY = 'AK", "IAIOSFODNN7ABCDEFG'\n"),
    "root/.cache/huggingface/token": body("hf", "_", A34),
    "opt/app/hub.txt": body("hf", "_", A34, "\n"),
    "opt/app/forge.txt": body("ghp", "_", A36, "\n"),
    "opt/app/fine.txt": body("github", "_pat_", A40, A40[:30], "\n"),
    "opt/app/gitlab.txt": body("glpat", "-", A20, "\n"),
    "opt/key.txt": body("-----BEGIN OPENSSH PRIVATE", " KEY-----\n", PEM, "\n"),
    "opt/rsa.json": body('{"private_key": "-----BEGIN PRIVATE', " KEY-----\\n", PEM, '\\n"}'),
    "root/.ssh/work": body("-----BEGIN RSA PRIVATE", " KEY-----\n", PEM, "\n"),
    "root/.netrc": body("machine api.wandb.ai login user password ", A40),
    "opt/netrc.bak": body("machine api.wandb.ai login user password ", A40, "\n"),
    "root/.npmrc": body("//registry/:_authToken=npm", "_", A36),
    "opt/npmrc": body("//registry.npmjs.org/:_authToken=npm", "_", A36, "\n"),
    "root/.docker/config.json": body('{"auths": {"x": {"auth": "', PEM[:24], '"}}}'),
    "opt/docker.json": body('{"auths": {"x": {"auth": "', PEM[:24], '"}}}'),
    "root/.kube/config": body("client-key-data: ", PEM),
    "opt/kube.yaml": body("client-key-data: ", PEM, "\n"),
    "root/.bash_history": body("export WANDB_API_KEY=", A40),
    "root/.python_history": body("token = 1"),
    "root/.config/wandb/settings": body("key = ", A40),
    "opt/run.sh": body("export WANDB_API_KEY=", A40, "\n"),
    "srv/app/.env": body("OPENAI_API_KEY=sk-", A40),
    "srv/app/prod.env": body("DB_PASSWORD=hunter2"),
    "opt/openai.txt": body("sk-", A20, "T3Blbk", "FJ", A20, "\n"),
    "opt/anthropic.txt": body("sk-ant", "-api03-", A40, "\n"),
    "opt/slack.txt": body(
        "https://hooks.slack", ".com/services/T01234567/B01234567/", A20, "Abcd\n"
    ),
    "opt/stripe.txt": body("sk_l", "ive_", A20, "1234\n"),
    "opt/google.txt": body("AI", "za", A34, "A\n"),
    "opt/azure.txt": body("AccountKey=", "Ab3/" * 21, "Ab==\n"),
    "opt/jwt.txt": body("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.", A40, "\n"),
    "opt/pypi.txt": body("pypi-AgE", "IcHlwaS5vcmc", A40, A40, "\n"),
    "opt/db.py": body("URL = 'postgres://admin:", "s3cr3tpw@db.internal/x'\n"),
    "opt/signed.txt": body("https://b/x?X-Amz-Signature=", A64, "\n"),
    "opt/databricks.txt": body("dap", "i", A64[:32], "\n"),
    "opt/age.txt": body("AGE-SECRET", "-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2, "\n"),
    "opt/vault.txt": body("hv", "s.", A40, "\n"),
    "etc/shadow": body("root:$6", "$salt$", A40, A40, ":19000:0:99999:7:::\n"),
    "root/train.py": body("wandb_api_key = '", A40, "'\n"),
    "root/conf.yaml": body("db:\n  password: tr0ub4dor&3\n"),
    "root/.git-credentials": body("https://u:", A20, "@github.com"),
    "root/.pypirc": body("password = x"),
    "root/.mozilla/firefox/key4.db": b"\0db",
    "root/.gnupg/private-keys-v1.d/a.key": b"key",
    "etc/ssh/ssh_host_rsa_key": b"key",
    "etc/machine-id": b"0123456789abcdef",
    "opt/lib.so": bytes(5000) + body("ghp", "_", A36) + bytes(5000),
    "opt/over.bin": b"\1" * (2 << 20) + body("ghp", "_", A36) + b"\1" * (2 << 20),
}


def zipped(name: str, content: bytes) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return raw.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return raw.getvalue()


PACKED = {
    "opt/a.zip": zipped("k.txt", CANARIES["opt/app/forge.txt"]),
    "opt/a.tgz": tarred("k.txt", CANARIES["opt/app/forge.txt"]),
    "opt/a.7z": b"7z\xbc\xaf\x27\x1c" + bytes(100),
    "opt/torn.zip": zipped("k.txt", b"x" * 500)[:60],
}


def test_promise_12_none_of_the_planted_secrets_passes_silently(world, stranger, tmp_path):
    files = {**CLEAN, **CANARIES, **PACKED}
    owned = Owned.make(world, tmp_path, files)
    share, token = owned.share()
    found = set(owned.findings(share))
    captured = {f"/{name}" for name in files}
    share = decide(owned, share, "/**", Decision.EXCLUDE)
    operation = accept(world, stranger, share, token)
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    left = {f"/{name}" for name in files_below(copy)}
    assert left == {f"/{name}" for name in CLEAN}, sorted(left - {f"/{name}" for name in CLEAN})
    assert not found & {f"/{name}" for name in CLEAN}
    assert share.receipt.files == len(CLEAN)
    assert captured - found - left
