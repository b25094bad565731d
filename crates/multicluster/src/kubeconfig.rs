//! Kubeconfigs as kubectl reads them: which file, which context, and what stands wrong in it.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{Config, Kubeconfig, KubeconfigError};

use super::connection::{ConnectionError, ConnectionSource, ConnectionSpec, Held, flag, listed};
use super::in_process::InProcess;
use super::proxy::Proxies;

/// A configuration as it was read, and what to compare it by.
pub(super) struct Loaded {
    pub(super) config: Config,
    pub(super) proxies: Proxies,
    /// Hash over every file that took part: another value means that something changed.
    pub(super) fingerprint: u64,
    /// Where it came from, for messages.
    pub(super) origin: String,
}

/// Reads what a connection's specification names.
pub(super) fn load(spec: &ConnectionSpec) -> Result<Loaded, ConnectionError> {
    let loaded = match &spec.source {
        ConnectionSource::Kubeconfig { path, context } => {
            from_files(spec, std::slice::from_ref(path), context.as_deref())
        }
        ConnectionSource::Held { kubeconfig, context } => held(spec, kubeconfig, context.as_deref()),
        ConnectionSource::InCluster => in_cluster(),
        ConnectionSource::Default => by_default(spec),
        ConnectionSource::InProcess(servers) => Ok(in_process(servers)),
    };
    loaded.map_err(|why| ConnectionError::new(&spec.name, why))
}

fn in_process(servers: &InProcess) -> Loaded {
    let (address, token) = servers.0.kubeconfig();
    let mut hasher = DefaultHasher::new();
    (&address, &token).hash(&mut hasher);
    let mut config = Config::new(address);
    config.auth_info.token = Some(token.into());
    let (proxies, fingerprint) = (Proxies::InProcess(servers.clone()), hasher.finish());
    Loaded { config, proxies, fingerprint, origin: "this process".into() }
}

/// `KUBECONFIG`, else `~/.kube/config`.
fn by_default(spec: &ConnectionSpec) -> Result<Loaded, String> {
    let listed = listed_files(std::env::var_os("KUBECONFIG"));
    if !listed.is_empty() {
        return from_files(spec, &listed, None);
    }
    let home = std::env::home_dir().map(|home| home.join(".kube").join("config"));
    match home.filter(|path| path.exists()) {
        Some(path) => from_files(spec, &[path], None),
        None => {
            Err(format!("no kubeconfig is given, and there is none in KUBECONFIG or ~/.kube/config; {}", fix(spec)))
        }
    }
}

fn listed_files(variable: Option<OsString>) -> Vec<PathBuf> {
    let paths = variable.iter().flat_map(std::env::split_paths);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

fn in_cluster() -> Result<Loaded, String> {
    let config = Config::incluster();
    let config = config.map_err(|error| format!("`in-cluster` needs the service account of a Pod: {error}"))?;
    // Token and CA are re-read by themselves; nothing else can change while a pod lives.
    let (proxies, origin) = (Proxies::of_environment(), "the pod's service account".into());
    Ok(Loaded { config, proxies, fingerprint: 0, origin })
}

fn from_files(spec: &ConnectionSpec, paths: &[PathBuf], context: Option<&str>) -> Result<Loaded, String> {
    let origin = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let merged = paths.iter().try_fold(Kubeconfig::default(), |merged, path| {
        let next = Kubeconfig::read_from(path).and_then(|next| merged.merge(next));
        next.map_err(|error| format!("{}; {}", unreadable(path, &error), fix(spec)))
    })?;
    let context = chosen_context(spec, &merged, context, &origin)?;
    let fingerprint = fingerprint(&merged);
    of_context(merged, &context, &origin, fingerprint)
}

fn held(spec: &ConnectionSpec, held: &Held, context: Option<&str>) -> Result<Loaded, String> {
    let (text, origin) = (held.text(), held.origin());
    // The parser's own words may quote the text, which is a secret.
    let config = Kubeconfig::from_yaml(&text)
        .map_err(|_| format!("{origin} is no kubeconfig: its text cannot be read as one; {}", fix(spec)))?;
    let context = chosen_context(spec, &config, context, origin)?;
    if let Some((what, instead)) = reaches_out(&config, &context, held.is_user_local()) {
        return Err(format!(
            "context `{context}` of {origin} {what}; a kubeconfig that a cluster holds must contain what it needs, so write {instead} into it"
        ));
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    of_context(config, &context, origin, hasher.finish())
}

/// What makes a kubeconfig run a program of this machine, or read a file of it, and what to write instead. Who can write the
/// kubeconfig need not be one who may do that.
fn reaches_out(config: &Kubeconfig, context: &str, is_user_local: bool) -> Option<(String, &'static str)> {
    let context = config.contexts.iter().find(|entry| entry.name == context)?.context.as_ref()?;
    let cluster = config.clusters.iter().find(|known| known.name == context.cluster).and_then(|it| it.cluster.as_ref());
    let user = config.auth_infos.iter().find(|known| Some(&known.name) == context.user.as_ref());
    let user = user.and_then(|known| known.auth_info.as_ref()).filter(|_| !is_user_local);
    let file = |path: &String| format!("names the file {path}");
    let authority = cluster.and_then(|cluster| cluster.certificate_authority.as_ref()).map(file);
    let plugin = user.and_then(|user| user.exec.as_ref()).map(|_| "runs a program".to_owned());
    let token = user.and_then(|user| user.token_file.as_ref()).map(file);
    let certificate = user.and_then(|user| user.client_certificate.as_ref()).map(file);
    let key = user.and_then(|user| user.client_key.as_ref()).map(file);
    let found = [
        (authority, "`certificate-authority-data`"),
        (plugin, "a `token` or a client certificate"),
        (token, "`token`"),
        (certificate, "`client-certificate-data`"),
        (key, "`client-key-data`"),
    ];
    found.into_iter().find_map(|(what, instead)| Some((what?, instead)))
}

/// The contexts of a kubeconfig file.
///
/// # Errors
/// Why it cannot be read, in words that name the file.
pub fn contexts_of(path: &Path) -> Result<Vec<String>, String> {
    let config = Kubeconfig::read_from(path).map_err(|error| unreadable(path, &error))?;
    Ok(config.contexts.into_iter().map(|context| context.name).collect())
}

/// What one context of a kubeconfig says.
fn of_context(mut merged: Kubeconfig, context: &str, origin: &str, fingerprint: u64) -> Result<Loaded, String> {
    let unusable = |reason: String| format!("context `{context}` of {origin} cannot be used: {reason}");
    if let Some(user) = missing_user(&merged, context) {
        return Err(unusable(format!("its user `{user}` is not in the file")));
    }
    let proxies = match proxy_url(&mut merged, context) {
        Some(proxy) => Proxies::named(&proxy).map_err(unusable)?,
        None => Proxies::of_environment(),
    };
    let config = Config::try_from(Kubeconfig { current_context: Some(context.to_owned()), ..merged });
    let config = config.map_err(|error| {
        unusable(match error {
            KubeconfigError::LoadClusterOfContext(cluster) => format!("its cluster `{cluster}` is not in the file"),
            KubeconfigError::MissingClusterUrl => "its cluster has no `server`".to_owned(),
            error => error.to_string(),
        })
    })?;
    Ok(Loaded { config, proxies, fingerprint, origin: format!("{origin}, context {context}") })
}

fn unreadable(path: &Path, error: &KubeconfigError) -> String {
    let path = path.display();
    match error {
        KubeconfigError::ReadConfig(error, _) => {
            let why: String = match error.kind() {
                ErrorKind::NotFound => "there is no such file".into(),
                ErrorKind::PermissionDenied => "permission denied".into(),
                _ => error.to_string(),
            };
            format!("cannot read the kubeconfig {path}: {why}")
        }
        KubeconfigError::Parse(error) => format!("{path} is no kubeconfig: {}", first_line(error)),
        error => format!("{path} is no kubeconfig: {error}"),
    }
}

fn chosen_context(
    spec: &ConnectionSpec,
    config: &Kubeconfig,
    context: Option<&str>,
    origin: &str,
) -> Result<String, String> {
    let known: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
    match context.or(config.current_context.as_deref()).filter(|context| !context.is_empty()) {
        None if known.is_empty() => Err(format!("{origin} holds no context; {}", fix(spec))),
        None => Err(format!("no current context in {origin}; add `#CONTEXT` to the path, one of: {}", listed(known))),
        Some(wanted) if known.contains(&wanted) => Ok(wanted.to_owned()),
        Some(wanted) => Err(format!("no context `{wanted}` in {origin}; there are: {}", listed(known))),
    }
}

fn fix(spec: &ConnectionSpec) -> String {
    format!("give one with `{}`", flag(&spec.name))
}

/// The user that a context names and nobody defines: kube would go on without any credential.
fn missing_user<'c>(config: &'c Kubeconfig, context: &str) -> Option<&'c str> {
    let entry = config.contexts.iter().find(|entry| entry.name == context)?;
    let user = entry.context.as_ref()?.user.as_deref().filter(|user| !user.is_empty())?;
    config.auth_infos.iter().all(|known| known.name != user).then_some(user)
}

/// Taken out of what kube reads, which goes by other rules for who is asked directly.
fn proxy_url(config: &mut Kubeconfig, context: &str) -> Option<String> {
    let entry = config.contexts.iter().find(|entry| entry.name == context)?;
    let name = &entry.context.as_ref()?.cluster;
    let cluster = config.clusters.iter_mut().find(|known| &known.name == name)?;
    cluster.cluster.as_mut()?.proxy_url.take().filter(|proxy| !proxy.is_empty())
}

/// Where a parser stopped, and at what. Values that it quotes are left out: they may be secrets.
fn first_line(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line).to_owned();
    ['"', '`'].into_iter().fold(line, |line, quote| match (line.find(quote), line.rfind(quote)) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &line[..from], &line[to + 1..]),
        _ => line,
    })
}

/// Over what the kubeconfigs say, and every certificate, key and CA file that they name. Token files are not in it: they are
/// re-read each minute anyway.
fn fingerprint(config: &Kubeconfig) -> u64 {
    let mut hasher = DefaultHasher::new();
    // As a tree, which is sorted: the variables of an exec plugin are maps without order.
    serde_json::to_value(config).unwrap_or_default().to_string().hash(&mut hasher);
    let clusters = config.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = config.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let authorities = clusters.filter_map(|cluster| cluster.certificate_authority.clone());
    let identities = users.flat_map(|user| [user.client_certificate.clone(), user.client_key.clone()]).flatten();
    for file in authorities.chain(identities) {
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ConnectionSpec {
        ConnectionSpec { name: "kcp".into(), source: ConnectionSource::Default }
    }

    #[test]
    fn a_list_of_files_is_merged_and_empty_entries_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let one = write(
            "one",
            r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}]}"#,
        );
        let two = write(
            "two",
            r#"{"current-context": "b", "clusters": [{"name": "c", "cluster": {"server": "https://one:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}]}"#,
        );
        let variable = std::env::join_paths([one.as_path(), Path::new(""), two.as_path()]).unwrap();
        let files = listed_files(Some(variable));
        assert_eq!(files, [one, two.clone()]);
        let loaded = from_files(&spec(), &files, None).unwrap();
        assert_eq!(loaded.config.cluster_url.to_string(), "https://one:1/");
        assert!(from_files(&spec(), &[two], None).is_err(), "its context is not in it");
        assert!(listed_files(None).is_empty());
    }

    #[test]
    fn every_file_that_takes_part_counts_as_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let text = r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://one:1"}}],
            "users": [{"name": "u", "user": {"client-certificate": "tls.crt", "client-key": "tls.key",
                "exec": {"command": "./login", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}}}]}"#;
        std::fs::write(file("config"), text).unwrap();
        let fingerprint = || from_files(&spec(), &[file("config")], None).unwrap().fingerprint;
        let mut seen = vec![fingerprint()];
        for name in ["tls.crt", "tls.key"] {
            std::fs::write(file(name), name).unwrap();
            seen.push(fingerprint());
        }
        std::fs::write(file("config"), text.replace("one", "two")).unwrap();
        seen.push(fingerprint());
        seen.dedup();
        assert_eq!(seen.len(), 4);
        assert!((0..9).all(|_| Some(fingerprint()) == seen.last().copied()), "the order of maps does not count");
        let plugin = from_files(&spec(), &[file("config")], None).unwrap().config.auth_info.exec.unwrap();
        assert_eq!(plugin.command.as_deref(), file("./login").to_str(), "beside its kubeconfig");
    }

    #[test]
    fn what_stands_in_place_of_a_kubeconfig_is_not_repeated() {
        for text in
            ["hunter2", "{\"users\": \"hunter2\"}", "clusters: [hunter2", "users: [{name: u, user: {exec: hunter2}}]"]
        {
            let held = Held::new("Secret fleet/a".to_owned(), text.to_owned());
            let Err(error) = super::held(&spec(), &held, None) else { panic!("{text} is taken for a kubeconfig") };
            assert!(!error.contains("hunter2"), "{error}");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("kubeconfig");
            std::fs::write(&file, text).unwrap();
            let Err(error) = from_files(&spec(), &[file], None) else { panic!("{text} is taken for a kubeconfig") };
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
