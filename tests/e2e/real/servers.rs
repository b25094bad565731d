//! The binaries of the real servers: Kubernetes' are built from the versions that `tests/servers/go.mod` pins; kcp
//! and operators are those of this machine.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Where the pinned binaries stand.
#[derive(Clone)]
pub struct Binaries(PathBuf);

impl Binaries {
    pub fn etcd(&self) -> PathBuf {
        self.0.join("server")
    }

    pub fn named(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Builds kube-apiserver, kube-controller-manager, kubectl, etcd and the Go client, or finds them built. Minutes the first
/// time, nothing after that, in any clone of this user: the folder is named for what they are built from.
/// Err says why they cannot be had on this machine.
pub fn pinned() -> Result<Binaries, String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let folder = cache().join("servers").join(digest(&sources)?);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // Test runs side by side wait for each other here instead of building the same thing twice.
    let lock = File::create(folder.join(".lock")).expect("the lock file");
    lock.lock().expect("the lock");
    let complete = folder.join(".complete");
    if !complete.is_file() {
        eprintln!("building the API servers into {} (minutes)", folder.display());
        build(&sources, &folder)?;
        File::create(&complete).expect("the mark of a complete folder");
    }
    Ok(Binaries(folder))
}

/// The folder of the user for what can be built again: `XDG_CACHE_HOME`, else `~/.cache`; without a home, the target
/// directory.
fn cache() -> PathBuf {
    let named = |variable| env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    cache.map_or_else(target_dir, |cache| cache.join("sync-engine"))
}

/// Names what the servers are built from: their sources, the pinned versions, and the Go that builds them.
fn digest(sources: &Path) -> Result<String, String> {
    let go = Command::new("go").arg("version").output();
    let go = go.map_err(|_| "there is no Go to build kube-apiserver with".to_owned())?;
    let mut hash = Sha256::new_with_prefix(&go.stdout);
    for file in ["go.mod", "go.sum", "informers/main.go"] {
        hash.update(fs::read(sources.join(file)).expect("a file of the repository"));
    }
    hash.update(said_version(sources));
    Ok(HEXLOWER.encode(&hash.finalize()[..8]))
}

/// Has the servers say their version, by which Helm goes. A release of Kubernetes is built with more of the same.
fn said_version(sources: &Path) -> String {
    let pinned = fs::read_to_string(sources.join("go.mod")).expect("a file of the repository");
    let (_, version) = pinned.split_once("\tk8s.io/kubernetes v").expect("the pinned version");
    let version = version.split_whitespace().next().expect("a version");
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().expect("a major version"), parts.next().expect("a minor version"));
    let words = [("gitVersion", &*format!("v{version}")), ("gitMajor", major), ("gitMinor", minor)];
    let flags = words.map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}"));
    format!("-ldflags={}", flags.join(" "))
}

fn build(sources: &Path, folder: &Path) -> Result<(), String> {
    let built = Command::new("go")
        .current_dir(sources)
        .arg("build")
        .arg(said_version(sources))
        .arg("-o")
        .arg(format!("{}/", folder.display()))
        .args(["tool", "./informers"])
        .output()
        .map_err(|error| format!("go build: {error}"))?;
    match built.status.success() {
        true => Ok(()),
        false => Err(format!("go build of tests/servers failed:\n{}", String::from_utf8_lossy(&built.stderr))),
    }
}

/// The kcp binary that `KCP` names, or the first one on PATH.
pub fn kcp() -> Result<PathBuf, String> {
    program("KCP", "kcp")
}

/// The operator of MongoDB's community edition that `MONGODB_OPERATOR` names, or the first one on PATH.
pub fn mongodb_operator() -> Result<PathBuf, String> {
    program("MONGODB_OPERATOR", "mongodb-kubernetes-operator")
}

/// The Helm that `HELM` names, or the first one on PATH: `.ci/tools helm` builds one.
pub fn helm() -> Result<PathBuf, String> {
    program("HELM", "helm")
}

fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(named) = env::var_os(variable).map(PathBuf::from) {
        return match named.is_file() {
            true => Ok(named),
            false => Err(format!("{variable} names {}, which is no file", named.display())),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("there is no `{name}` on PATH, and {variable} does not name one"))
}

/// Whether a machine without the servers that Go builds fails the run instead of listing the cases as not run.
pub fn required() -> bool {
    env::var("SYNC_ENGINE_REQUIRE_SERVERS").is_ok_and(|value| value == "1")
}

/// Cargo's target directory, found from the binary under test: `<target>/<profile>/sync-engine`.
pub fn target_dir() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_sync-engine"));
    binary.parent().and_then(Path::parent).expect("a binary in a target directory").to_owned()
}
