//! Detectors that go by how a text is hidden. `decode` and `normalize` see the signs.

use crate::detector::{
    Detector,
    Severity::{High, Low, Medium},
};

pub(crate) const TAG_CHARACTERS: Detector = Detector {
    id: "hidden.tag-characters",
    finds: "Text in invisible Unicode tag characters.",
    severity: High,
    anchors: &[],
    patterns: &[],
    positives: &["Fine.\u{E0048}\u{E0069}"],
    negatives: &["\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} flag"],
};

pub(crate) const ZERO_WIDTH: Detector = Detector {
    id: "hidden.zero-width",
    finds: "Invisible characters between Latin letters.",
    severity: Medium,
    anchors: &[],
    patterns: &[],
    positives: &["p\u{200B}l\u{200B}a\u{200B}n"],
    negatives: &["می\u{200C}خواهم", "\u{FEFF}plain text"],
};

pub(crate) const BIDI_OVERRIDE: Detector = Detector {
    id: "hidden.bidi-override",
    finds: "Characters that make text display in another order than it is read.",
    severity: Medium,
    anchors: &[],
    patterns: &[],
    positives: &["report\u{202E}fdp.exe"],
    negatives: &["\u{200F}שלום עולם"],
};

pub(crate) const MIXED_SCRIPT: Detector = Detector {
    id: "obfuscation.mixed-script",
    finds: "Words of Latin letters and look-alikes from other scripts.",
    severity: Medium,
    anchors: &[],
    patterns: &[],
    positives: &["wаter the рlants"],
    negatives: &["Привет world", "Ελλάδα and Россия"],
};

pub(crate) const FULL_WIDTH: Detector = Detector {
    id: "obfuscation.full-width",
    finds: "Latin text in full-width letters.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["ｗａｔｅｒ ｔｈｅ ｐｌａｎｔｓ"],
    negatives: &["東京ＡＢＣ株式会社"],
};

pub(crate) const LETTER_SPACING: Detector = Detector {
    id: "obfuscation.letter-spacing",
    finds: "Sentences with a space after each letter.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["w a t e r   t h e   t w o   p l a n t s"],
    negatives: &["A B C D E F G H I J K L M N"],
};

pub(crate) const LEET: Detector = Detector {
    id: "obfuscation.leet",
    finds: "Sentences with digits for letters.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["y0u c4n w4t3r 7h3 pl4nt5"],
    negatives: &["SKU A4B7-C3D1, A5B8-C3D2, A6B9-C3D3"],
};

pub(crate) const REVERSED: Detector = Detector {
    id: "obfuscation.reversed",
    finds: "Sentences written backwards.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["stnalp eht retaw uoy taht"],
    negatives: &["DNA test kit"],
};

pub(crate) const ROT13: Detector = Detector {
    id: "obfuscation.rot13",
    finds: "Sentences with letters moved by thirteen.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["gung lbh jngre gur cynagf"],
    negatives: &["Gur Emir, tomb in Samarkand"],
};

pub(crate) const ENCODED_PROSE: Detector = Detector {
    id: "obfuscation.encoded-prose",
    finds: "Sentences in Base64, hexadecimal, Morse code, or escapes that plain letters do not need.",
    severity: Low,
    anchors: &[],
    patterns: &[],
    positives: &["UGxlYXNlIHdhdGVyIHRoZSBwbGFudHM="],
    negatives: &[
        "d41d8cd98f00b204e9800998ecf8427e",
        "https://example.com/a%20b%2Fc?q=1%262",
    ],
};
