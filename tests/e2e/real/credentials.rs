//! Who may talk to the servers of a test run, and the files that say so.

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

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

/// Writes a token file for `--token-auth-file`; `engines` is the group that the engines' users belong to.
pub fn write_tokens(file: &Path, administrators: &str, engines: &str) {
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

/// The key pair that an API server signs its ServiceAccounts' tokens with.
pub struct SigningKey {
    pub private: PathBuf,
    pub public: PathBuf,
}

impl SigningKey {
    pub fn write(folder: &Path) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random).expect("the same key");
        let public = [P256_PUBLIC_KEY_HEADER, pair.public_key().as_ref()].concat();
        let key = Self { private: folder.join("sa.key"), public: folder.join("sa.pub") };
        fs::write(&key.private, pem("PRIVATE KEY", private.as_ref())).expect("the private key");
        fs::write(&key.public, pem("PUBLIC KEY", &public)).expect("the public key");
        key
    }
}

/// What stands before the 65 bytes of a P-256 point in a SubjectPublicKeyInfo (RFC 5480).
const P256_PUBLIC_KEY_HEADER: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64.encode(bytes);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
