//! Who may talk to the servers of a test run, and the files that say so.

use std::fs;
use std::path::Path;

use rcgen::KeyPair;

/// The administrator of every server.
pub const ADMIN: &str = "admin";
/// A user whom every server knows and nobody gave any right.
pub const NOBODY: &str = "nobody";

/// How many engines can have a user of their own in one run.
const ENGINES: usize = 400;

/// The n-th engine's user name: each case has its own, so that the audit log tells whose a request was.
pub fn engine(number: usize) -> String {
    assert!(number < ENGINES, "the token file knows {ENGINES} engines");
    format!("engine-{number:03}")
}

/// Every user whose requests a test may ask for.
pub fn watched() -> Vec<String> {
    (0..ENGINES).map(engine).chain([NOBODY.to_owned()]).collect()
}

/// The bearer token of a user.
pub fn token(user: &str) -> String {
    format!("{user}-token")
}

/// Writes a token file for `--token-auth-file`, with the groups of administrators and of the engines' users.
pub fn write_tokens(file: &Path, [administrators, engines]: [&str; 2]) {
    let line = |user: &str, group: &str| format!("{},{user},{user},\"{group}\"\n", token(user));
    let mut text = line(ADMIN, administrators) + &line(NOBODY, "nobodies");
    text.extend((0..ENGINES).map(|number| line(&engine(number), engines)));
    fs::write(file, text).expect("the token file");
}

/// A kubeconfig with one context, for `user` with its token.
pub fn kubeconfig(server: &str, authority: &Path, user: &str) -> String {
    let (authority, token) = (authority.display(), token(user));
    format!(
        r#"apiVersion: v1
kind: Config
clusters: [{{name: it, cluster: {{server: "{server}", certificate-authority: "{authority}"}}}}]
users: [{{name: it, user: {{token: "{token}"}}}}]
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
current-context: it
"#
    )
}

/// Writes the key pair that an API server signs its ServiceAccounts' tokens with, as `sa.key` and `sa.pub`.
pub fn write_signing_key(folder: &Path) {
    let key = KeyPair::generate().expect("a key");
    fs::write(folder.join("sa.key"), key.serialize_pem()).expect("the private key");
    fs::write(folder.join("sa.pub"), key.public_key_pem()).expect("the public key");
}
