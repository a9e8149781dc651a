//! What a word can say about the text around it.

/// A kind of word that instructions to a model are made of. None is telling alone: the score goes by which stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Signal {
    Override,
    Prior,
    Orders,
    Prompt,
    Model,
    RoleFrame,
    NewRule,
    Reveal,
    Secret,
    Send,
    Address,
    Tool,
    Unbound,
    TurnMark,
    Urgency,
    Secrecy,
    Authority,
    Dictation,
    Task,
    Recipient,
    Holdings,
    Fiction,
    Reading,
    Finish,
    Encoding,
    Key,
    Compose,
    Ask,
    How,
}

impl Signal {
    /// The number that features are made of, which the weights were learned with.
    pub(crate) fn number(self) -> u64 {
        self as u64 + 1
    }

    /// The bit of this signal in a set.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Whether it is rare enough in honest texts to be worth reading around. The others only count beside one of these.
    pub(crate) fn is_core(self) -> bool {
        match self {
            Self::Override
            | Self::Orders
            | Self::Prompt
            | Self::Model
            | Self::RoleFrame
            | Self::Reveal
            | Self::Secret
            | Self::Unbound
            | Self::Secrecy
            | Self::Dictation
            | Self::Task
            | Self::Reading => true,
            Self::Prior
            | Self::NewRule
            | Self::Send
            | Self::Address
            | Self::Tool
            | Self::TurnMark
            | Self::Urgency
            | Self::Authority
            | Self::Recipient
            | Self::Holdings
            | Self::Fiction
            | Self::Finish
            | Self::Encoding
            | Self::Key
            | Self::Compose
            | Self::Ask
            | Self::How => false,
        }
    }

    /// What a finding calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Override => "order to disregard",
            Self::Prior => "what came before",
            Self::Orders => "instructions or rules",
            Self::Prompt => "prompt",
            Self::Model => "model or assistant",
            Self::RoleFrame => "role for the reader",
            Self::NewRule => "new order of things",
            Self::Reveal => "order to reveal",
            Self::Secret => "secret",
            Self::Send => "order to send",
            Self::Address => "address",
            Self::Tool => "tool or command",
            Self::Unbound => "freedom from rules",
            Self::TurnMark => "mark of a turn",
            Self::Urgency => "urgency",
            Self::Secrecy => "secrecy",
            Self::Authority => "authority",
            Self::Dictation => "dictated answer",
            Self::Task => "task for the reader",
            Self::Recipient => "user or recipient",
            Self::Holdings => "what the reader holds",
            Self::Fiction => "fiction",
            Self::Reading => "this text itself",
            Self::Finish => "end of the data",
            Self::Encoding => "encoding",
            Self::Key => "key",
            Self::Compose => "text to write",
            Self::Ask => "question",
            Self::How => "question about the way",
        }
    }
}
