//! Detectors of values that an answer should not hold: keys, tokens, numbers of cards and accounts. They go by form, and the score
//! has no part in them.

use crate::detector::{
    Detector,
    Severity::{High, Low, Medium},
};

pub(crate) const PRIVATE_KEY: Detector = Detector {
    id: "leak.private-key",
    finds: "A private key in PEM, OpenPGP, PuTTY or age form.",
    severity: High,
    anchors: &["-----begin", "putty-user-key-file", "age-secret-key-1"],
    patterns: &[
        r"-{5}begin (?:[a-z0-9]{2,12} ){0,2}private key(?: block)?-{5}",
        r"putty-user-key-file-\d:",
        r"\bage-secret-key-1[a-z0-9]{50,64}\b",
    ],
    positives: &[
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "PuTTY-User-Key-File-3: ssh-ed25519",
    ],
    negatives: &[
        "-----BEGIN PUBLIC KEY-----\nMIIB",
        "-----BEGIN CERTIFICATE-----",
        "Keep the private key on the server.",
    ],
};

pub(crate) const ACCESS_TOKEN: Detector = Detector {
    id: "leak.access-token",
    finds: "An access key or token of a known form.",
    severity: High,
    anchors: &[
        "akia",
        "asia",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "xoxs-",
        "xoxr-",
        "xapp-",
        "sk-",
        "sk_live_",
        "rk_live_",
        "whsec_",
        "aiza",
        "ya29.",
        "eyj",
        "npm_",
        "hf_",
        "dckr_pat_",
        "pypi-",
        "sg.",
        "shpat_",
        "shpss_",
        "dop_v1_",
        "sq0atp-",
        "lin_api_",
        "hvs.",
        "glsa_",
        "hooks.slack.com/services/",
    ],
    patterns: &[
        r"\b(?-i:A(?:KI|SI)A[0-9A-Z]{16})\b",
        r"\b(?:gh[opusr]\_[0-9a-z]{36,}|github\_pat\_\w{60,}|glpat-[\w-]{20,})",
        r"\b(?:xox[abprs]-[0-9a-z-]{20,}|xapp-\d-[0-9a-z-]{20,})",
        r"\b(?-i:sk-(?:proj|svcacct|admin|ant-api\d\d|ant-admin\d\d|or-v1)-[\w-]{32,}|sk-[0-9A-Za-z]{32,})",
        r"\b(?:[sr]k\_live\_[0-9a-z]{20,}|whsec\_[0-9a-z+/]{32,})",
        r"\b(?-i:AIza[\w-]{35}|ya29\.[\w-]{40,})",
        r"\b(?-i:eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,})",
        r"\b(?-i:npm\_[0-9A-Za-z]{36}|hf\_[A-Za-z]{34}|dckr\_pat\_[\w-]{27}|pypi-[\w-]{85,})",
        r"\b(?-i:SG\.[\w-]{22}\.[\w-]{43}|hvs\.[\w-]{24,})",
        r"\b(?:shp(?:at|ss)\_[0-9a-f]{32}|dop\_v1\_[0-9a-f]{64}|sq0atp-[\w-]{22}|lin\_api\_[0-9a-z]{40}|glsa\_[0-9a-z]{32}\_[0-9a-f]{8})\b",
        r"hooks\.slack\.com/services/t[0-9a-z]{8,12}/b[0-9a-z]{8,12}/[0-9a-z]{20,}",
    ],
    positives: &[
        "aws_access_key_id = AKIAQ3EGRZ5XKTW7PLMN",
        "token: ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "sk-proj-0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX",
    ],
    negatives: &[
        "AKIAXX is too short; southeast asia is a region",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "Set SK_LIVE_KEY in the environment; sk-learn is a library.",
        "ghp_ begins a token of this kind",
    ],
};

pub(crate) const CARD_NUMBER: Detector = Detector {
    id: "leak.card-number",
    finds: "The number of a payment card, with a right check digit.",
    severity: Medium,
    anchors: &[],
    patterns: &[],
    positives: &[
        "paid with 4539 1488 0343 6467",
        "371449635398431",
        "5500-0055-5555-5559 and more",
    ],
    negatives: &[
        "4539 1488 0343 6468",
        "order 1234567890123452",
        "id 45391488034364670000, 4539.1488.0343.6467",
        "0000 0000 0000 0000",
    ],
};

pub(crate) const IBAN: Detector = Detector {
    id: "leak.iban",
    finds: "The number of a bank account (IBAN), with right check digits.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &[
        "to DE89 3704 0044 0532 0130 00, thanks",
        "GB29NWBK60161331926819",
    ],
    negatives: &[
        "DE89 3704 0044 0532 0130 01",
        "GB29NWBK601613319268191",
        "part AB12CDEF3456",
    ],
};
