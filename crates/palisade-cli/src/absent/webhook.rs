//! The webhook of approvals, where it was not built in.

use crate::{config::webhook::WebhookSetup, exit::Failure, notice::Notice};

/// What would tell people outside.
#[derive(Debug)]
pub(crate) enum Webhook {}

impl Webhook {
    pub(crate) fn start(_: &WebhookSetup) -> Result<Self, Failure> {
        Err(Failure::Configuration(
            "error: this palisade was built without webhooks\n  help: build it with `--features webhook`, or leave `[approvals.webhook]` out"
                .to_owned(),
        ))
    }

    pub(crate) fn tell(&self, _: Notice) {
        match *self {}
    }

    pub(crate) fn finish(&self) -> Option<String> {
        match *self {}
    }
}
