//! The property list by which launchd starts a broker.

use std::path::Path;

/// The list. Files of the broker are its user's alone, it leaves no core, and it is started again if it falls.
pub(super) fn print_plist(program: &Path, config: &Path, user: &str, stop: u64) -> String {
    let (program, config, user) = (
        escape(&program.to_string_lossy()),
        escape(&config.to_string_lossy()),
        escape(user),
    );
    // The mask of modes is 077, which a list spells as a decimal number.
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>palisade-broker</string>
  <key>ProgramArguments</key>
  <array>
    <string>{program}</string>
    <string>broker</string>
    <string>--config</string>
    <string>{config}</string>
  </array>
  <key>UserName</key>
  <string>{user}</string>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>Umask</key>
  <integer>63</integer>
  <key>ExitTimeOut</key>
  <integer>{stop}</integer>
  <key>HardResourceLimits</key>
  <dict>
    <key>Core</key>
    <integer>0</integer>
  </dict>
</dict>
</plist>
"#
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_as_it_was_looked_at() {
        let list = print_plist(
            Path::new("/usr/local/bin/palisade"),
            Path::new("/etc/a & b/<c>.toml"),
            "_palisade",
            35,
        );
        let mut lines = list.lines().map(str::trim);
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
            "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">",
            "<plist version=\"1.0\">",
            "<dict>",
            "<key>Label</key>",
            "<string>palisade-broker</string>",
            "<key>ProgramArguments</key>",
            "<array>",
            "<string>/usr/local/bin/palisade</string>",
            "<string>broker</string>",
            "<string>--config</string>",
            "<string>/etc/a &amp; b/&lt;c&gt;.toml</string>",
            "</array>",
            "<key>UserName</key>",
            "<string>_palisade</string>",
            "<key>RunAtLoad</key>",
            "<true/>",
            "<key>KeepAlive</key>",
            "<dict>",
            "<key>SuccessfulExit</key>",
            "<false/>",
            "</dict>",
            "<key>Umask</key>",
            "<integer>63</integer>",
            "<key>ExitTimeOut</key>",
            "<integer>35</integer>",
            "<key>HardResourceLimits</key>",
            "<dict>",
            "<key>Core</key>",
            "<integer>0</integer>",
            "</dict>",
            "</dict>",
            "</plist>",
        ];
        for line in expected {
            assert_eq!(lines.next(), Some(line));
        }
        assert_eq!(lines.next(), None);
    }
}
