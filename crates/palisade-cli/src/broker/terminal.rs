//! A terminal that shows nothing of what is typed.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

use crate::exit::Failure;

/// Bytes of a password, so that its memory never moves.
const MOST: usize = 4096;

/// The terminal of this process, whatever its standard input is.
pub(super) struct Terminal {
    device: File,
}

/// The terminal as it was before.
struct Quiet<'t> {
    device: &'t File,
    before: Termios,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.device, OptionalActions::Flush, &self.before);
    }
}

impl Terminal {
    pub(super) fn open() -> Result<Self, Failure> {
        let opened = OpenOptions::new().read(true).write(true).open("/dev/tty");
        opened.map(|device| Self { device }).map_err(|error| {
            Failure::Usage(format!(
                "there is no terminal to ask for a password: {error}\n  help: run the command in a terminal; in a container with `-it`, over SSH with `-t`"
            ))
        })
    }

    /// Says something; who does not see it cannot be helped.
    pub(super) fn tell(&mut self, text: &str) {
        let _ = self.device.write_all(text.as_bytes());
    }

    /// Asks for a line that is not shown.
    pub(super) fn ask(&mut self, question: &str) -> Result<Zeroizing<String>, Failure> {
        let line = self.read_quietly(question);
        self.tell("\n");
        match line {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Failure::Usage("nothing was stored: given up".to_owned())),
            Err(error) => Err(Failure::Usage(format!(
                "the terminal cannot be read: {error}"
            ))),
        }
    }

    /// Reads key by key: with signals off, Ctrl-C cannot leave a terminal that shows nothing.
    fn read_quietly(&mut self, question: &str) -> std::io::Result<Option<Zeroizing<String>>> {
        let mut line = Zeroizing::new(Vec::with_capacity(MOST));
        let before = tcgetattr(&self.device)?;
        let mut quiet = before.clone();
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.device, OptionalActions::Flush, &quiet)?;
        let restored = Quiet {
            device: &self.device,
            before,
        };
        (&self.device).write_all(question.as_bytes())?;
        let mut key = Zeroizing::new([0_u8; 1]);
        loop {
            if (&self.device).read(key.as_mut_slice())? == 0 {
                return Ok(None);
            }
            let [byte] = *key;
            match byte {
                b'\n' | b'\r' => break,
                // Ctrl-C, and Ctrl-D.
                3 | 4 => return Ok(None),
                // Backspace takes a character.
                8 | 127 => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
                // Ctrl-U takes all.
                21 => line.clear(),
                other if line.len() < MOST => line.push(other),
                _ => {
                    let error = format!("more than {MOST} bytes");
                    return Err(std::io::Error::other(error));
                }
            }
        }
        drop(restored);
        let text = std::str::from_utf8(&line);
        let text = text.map_err(|_| std::io::Error::other("what was typed is not UTF-8"))?;
        Ok(Some(Zeroizing::new(text.to_owned())))
    }
}
