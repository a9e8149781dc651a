//! A client that is killed: its connections end all at once, wherever they are.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use super::error::ServerError;

const HOST: &str = "127.0.0.1";

/// Stands before a server and passes everything on, until clients have sent so many messages: then every connection ends, as those of a process
/// do that is killed. The server gets the last message, and its answer is lost.
///
/// It stands as long as the process, and connects to nothing any more.
#[derive(Debug)]
pub struct CuttingProxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many messages pass before the last one; any number where there is none.
    left: Option<u32>,
    is_cut: bool,
    streams: Vec<TcpStream>,
}

/// What becomes of a message.
enum Passage {
    Goes,
    /// It is the last one.
    Last,
    /// There is no connection.
    Cut,
}

impl State {
    fn pass(&mut self) -> Passage {
        match (self.is_cut, &mut self.left) {
            (true, _) => Passage::Cut,
            (false, None) => Passage::Goes,
            (false, Some(0)) => {
                self.is_cut = true;
                Passage::Last
            }
            (false, Some(left)) => {
                *left -= 1;
                Passage::Goes
            }
        }
    }

    fn end_all(&mut self) {
        for stream in self.streams.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl CuttingProxy {
    /// Before the server at `port` of this machine.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(port: u16) -> Result<Self, ServerError> {
        let system = |why: std::io::Error| ServerError::system("listen on", HOST.as_ref(), &why);
        let listener = TcpListener::bind((HOST, 0)).map_err(system)?;
        let own = listener.local_addr().map_err(system)?.port();
        let state = Arc::<Mutex<State>>::default();
        let known = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // One that cannot be passed on is closed, as it is by a server that is not there.
                let _ = TcpStream::connect((HOST, port))
                    .and_then(|server| connect(client, server, &known));
            }
        });
        Ok(Self { port: own, state })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections once `messages` more have passed, with the next one.
    pub fn cut_after(&self, messages: u32) {
        lock(&self.state).left = Some(messages);
    }

    /// Whether it did.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        lock(&self.state).is_cut
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<Mutex<State>>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    {
        let mut state = lock(state);
        if state.is_cut {
            return Ok(());
        }
        state
            .streams
            .extend([client.try_clone()?, server.try_clone()?]);
    }
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let known = Arc::clone(state);
    thread::spawn(move || pass_messages(from_client, to_server, &known));
    thread::spawn(move || pass_answers(server, client));
    Ok(())
}

fn pass_messages(mut client: TcpStream, mut server: TcpStream, state: &Mutex<State>) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let Some(sent) = buffer.get(..count) else {
            break;
        };
        // Under the lock, so that nothing passes elsewhere after the last message.
        let mut state = lock(state);
        let passage = state.pass();
        match passage {
            Passage::Goes if server.write_all(sent).is_ok() => {}
            Passage::Goes => break,
            Passage::Last => {
                // Whoever cannot be reached hears nothing.
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.write_all(sent);
                state.end_all();
                break;
            }
            Passage::Cut => break,
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn pass_answers(mut server: TcpStream, mut client: TcpStream) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        let sent = buffer.get(..count);
        if sent.is_none_or(|sent| client.write_all(sent).is_err()) {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
