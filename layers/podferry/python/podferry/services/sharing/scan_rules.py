"""What a secret looks like. Data, and the detectors of the library `detect-secrets` behind it.

A rule runs only near one of its literals, which are found as fast as memory is read; so a whole
environment can be gone through, programs and libraries included.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector

_TOKEN, _KEY, _URL, _HASH = "token", "key", "url", "password_hash"


@dataclass(frozen=True, slots=True)
class Rule:
    """`matches` is shown the line, or of long ones some hundred bytes around the literal."""

    name: str
    kind: str
    literals: tuple[bytes, ...]
    matches: Callable[[str], bool]


def _pattern(name: str, kind: str, literals: Iterable[bytes], pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return Rule(name, kind, tuple(literals), lambda text: compiled.search(text) is not None)


def _detector(name: str, literals: Iterable[bytes], detector: RegexBasedDetector) -> Rule:
    return Rule(name, _TOKEN, tuple(literals), lambda text: any(detector.analyze_string(text)))


class AWSSecretKey(RegexBasedDetector):
    """The half of the library's detector that looks for the secret."""

    secret_type = "AWS Secret Key"  # noqa: S105  # a name that the library wants
    denylist = (AWSKeyDetector.denylist[1],)


_B64 = r"[A-Za-z0-9+/=]"
_ALNUM = r"[A-Za-z0-9]"

RULES: tuple[Rule, ...] = (
    # That of the library also takes genomes for key ids, and the one of AWS's own examples.
    _pattern("aws-key-id", _TOKEN, (b"AKIA", b"ASIA", b"A3T", b"ABIA", b"ACCA"),
             r"(?<![A-Z0-9])(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16}(?<!EXAMPLE)(?![A-Z0-9])"),
    _detector("aws-secret-key", (b"aws", b"AWS"), AWSSecretKey()),
    _detector("azure-storage-key", (b"AccountKey=",), AzureStorageKeyDetector()),
    _detector("discord-token", (b"Bot ", b"discord", b"DISCORD"), DiscordBotTokenDetector()),
    # That of the library also takes names of C++ symbols for tokens.
    _pattern("github-token", _TOKEN, (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
             rf"(?<!{_ALNUM})gh[pousr]_{_ALNUM}{{36}}(?![A-Za-z0-9_])"),
    _detector("gitlab-token", (b"glpat-", b"gldt-", b"glrt-", b"GR1348941"), GitLabTokenDetector()),
    _detector("jwt", (b"eyJ",), JwtTokenDetector()),
    _detector("mailchimp-key", (b"-us",), MailchimpDetector()),
    _detector("npm-auth", (b"_authToken",), NpmDetector()),
    _detector("openai-key", (b"T3BlbkFJ",), OpenAIDetector()),
    _detector("pypi-token", (b"pypi-AgE",), PypiTokenDetector()),
    _detector("sendgrid-key", (b"SG.",), SendGridDetector()),
    _detector("slack-token", (b"xox", b"hooks.slack.com"), SlackDetector()),
    _detector("square-secret", (b"sq0csp-",), SquareOAuthDetector()),
    _detector("stripe-key", (b"k_live_",), StripeDetector()),
    _pattern(
        "private-key",
        _KEY,
        (b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"),
        # A header alone is a word of many libraries; with Base64 after it, it is a key.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:\\[rn]|\s|[\w-]+: [^\n]*\n)*(?:{_B64}{{20,}}(?:\\[rn]|\s)*)+",
    ),
    _pattern("age-key", _KEY, (b"AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _pattern("putty-key", _KEY, (b"PuTTY-User-Key-File-",), r"PuTTY-User-Key-File-\d: ssh"),
    _pattern("kube-client-key", _KEY, (b"client-key-data",), rf"client-key-data:\s*{_B64}{{40,}}"),
    _pattern("hugging-face-token", _TOKEN, (b"hf_", b"api_org_"),
             r"(?:\b|_)(?:hf_|api_org_)[A-Za-z]{34}(?![A-Za-z0-9_])"),
    _pattern("github-fine-grained", _TOKEN, (b"github_pat_",), r"github_pat_\w{60,}"),
    _pattern("npm-token", _TOKEN, (b"npm_",), rf"\bnpm_{_ALNUM}{{36}}(?!{_ALNUM})"),
    _pattern("anthropic-key", _TOKEN, (b"sk-ant-",), r"sk-ant-[\w-]{24,}"),
    _pattern("openai-project-key", _TOKEN, (b"sk-proj-", b"sk-svcacct-", b"sk-or-"),
             r"sk-(?:proj|svcacct|or)-[\w-]{32,}"),
    _pattern("replicate-token", _TOKEN, (b"r8_",), rf"\br8_{_ALNUM}{{37}}(?!{_ALNUM})"),
    _pattern("google-api-key", _TOKEN, (b"AIza",), r"AIza[\w-]{35}(?![\w-])"),
    _pattern("google-oauth", _TOKEN, (b"ya29.", b"GOCSPX-"),
             r"ya29\.[\w-]{40,}|GOCSPX-[\w-]{28}"),
    _pattern("databricks-token", _TOKEN, (b"dapi",), r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    _pattern("digitalocean-token", _TOKEN, (b"do_v1_", b"dop_v1_"), r"do[opr]_v1_[0-9a-f]{64}"),
    _pattern("runpod-key", _TOKEN, (b"rpa_",), r"\brpa_[A-Z0-9]{30,}\b"),
    _pattern("groq-key", _TOKEN, (b"gsk_",), rf"\bgsk_{_ALNUM}{{50,}}"),
    _pattern("vault-token", _TOKEN, (b"hvs.", b"hvb."), r"\bhv[sb]\.[\w-]{24,}"),
    _pattern("telegram-token", _TOKEN, (b":AA",), r"\b\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _pattern("podferry-token", _TOKEN, (b"pf_", b"pfm_", b"pfb_", b"pfs_"),
             r"\b(?:pf|pfm|pfb|pfs)_(?:[a-z0-9]+_)?[\w-]{43}(?![\w-])"),
    _pattern("registry-auth", _TOKEN, (b'"auth"',), rf'"auth"\s*:\s*"{_B64}{{12,}}"'),
    _pattern("netrc-password", _TOKEN, (b"machine ",),
             r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S{4,}"),
    _pattern("slack-or-teams-webhook", _TOKEN,
             (b"/api/webhooks/", b"webhook.office.com/"),
             r"/api/webhooks/\d{15,}/[\w-]{50,}|webhook\.office\.com/webhookb2/[\w@-]{40,}"),
    _pattern("password-in-url", _URL, (b"://",),
             r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>{}$%()\[\]]{1,64}:"
             r"(?!(?i:pass|password|passwd|pw|pwd|secret|token|x+|y+|passphrase|hunter2)@)"
             r"[^\s:/@\"'<>{}$()\[\]*]{4,128}@[A-Za-z0-9.-]{2,}"),
    _pattern("signed-url", _URL, (b"X-Amz-Signature=", b"X-Goog-Signature=", b"sig="),
             r"X-(?:Amz|Goog)-Signature=[0-9a-f]{64}|[?&]sig=[\w%/+-]{40,}"),
    _pattern("password-hash", _HASH, (b"$6$", b"$y$", b"$5$", b"$2y$", b"$1$"),
             r"^[\w.-]+:\$(?:6|y|5|2y|1)\$[^:\s]{20,}"),
)  # fmt: skip

_WORD = (
    r"passw(?:or)?d|passphrase|passwd|secret|token|api_?-?key|access_?-?key|private_?-?key"
    r"|credentials?|auth_?-?key|encryption_?-?key|account_?-?key"
)
ASSIGNMENT = re.compile(
    rf"(?i)(?<![a-z])[\w.-]*(?:{_WORD})[\w.-]*[\"']?\]?\s*(?:=|:|=>|:=)\s*"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\s]{6,256})(?P=quote)|(?P<bare>[^\s\"'#,;()\[\]{}<>$]{8,256})\s*$)"
)
ASSIGNMENT_HINT = re.compile(rb"(?i)passw|passphrase|secret|token|_?-?key|credential")
_PLACEHOLDER = re.compile(
    r"(?i)^(?:[x*.]+|<.*>|\$.*|%.*|\{.*|your.*|my.?.*|change.?me|example.*|none|null|true|false"
    r"|dummy.*|test.*|placeholder.*|/.*|~/.*|https?://[^@]*|[a-z_]+(?:\.[a-z_]+)+|\w+_(?:token|key|id))$"
)


def is_assignment(line: str) -> bool:
    """Whether the line gives a literal to something that is named like a secret."""
    for match in ASSIGNMENT.finditer(line):
        quoted, bare = match["quoted"], match["bare"]
        value = quoted or bare
        if _PLACEHOLDER.match(value):
            continue
        if quoted or any(c.isdigit() for c in value):
            return True
    return False
