//! A session as the protocol's crate sees it: a client that says and is told one message after another.

use std::{convert::Infallible, future::ready, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::mpsc::UnboundedReceiver;

use super::session::Session;

/// The client of a session.
pub(crate) struct SessionTransport {
    session: Arc<Session>,
    said: UnboundedReceiver<ClientJsonRpcMessage>,
}

impl SessionTransport {
    pub(crate) fn new(
        session: Arc<Session>,
        said: UnboundedReceiver<ClientJsonRpcMessage>,
    ) -> Self {
        Self { session, said }
    }
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.session.say(message);
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.said.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.session.end();
        Ok(())
    }
}
