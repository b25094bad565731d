//! What is looked at beside the mappings: servers, clocks, credentials, accepted claims, recorded documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::mappings::Claimed;
use crate::catalog::Catalog;
use crate::cli::status::age;
use crate::cli::terminal::count;
use crate::engine::inventory::Inventory;
use crate::mapping::diagnostic::Diagnostic;
use crate::mapping::{ClusterProvider, Mapping, Resource};
use crate::multicluster::connection::{Connection, ConnectionSource, flag};
use crate::multicluster::{Endpoint, RequestError};
use crate::object::claims::{Claims, acceptance};
use crate::object::one_line;
use crate::rights::{Place, targets};
use crate::survey::servers::{self, Told};
use crate::survey::{Surveyor, Unseen};

/// A clock that differs by more gets a warning.
const MOST_AHEAD: SignedDuration = SignedDuration::from_secs(30);
/// A credential that ends sooner gets a warning.
const SOON: SignedDuration = SignedDuration::from_hours(24);
/// So many workspaces or connections are named.
const NAMED: usize = 10;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub verdict: Verdict,
    /// `clock`
    check: &'static str,
    /// A connection, an APIExport or a mapping.
    about: String,
    message: String,
    /// The command or the file that mends it; empty where nothing is to be mended.
    fix: String,
}

crate::mapping::words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Verdict {
        Ok = "ok",
        Warning = "warning",
        Error = "error",
        /// It cannot be read.
        Unknown = "unknown",
    }
}

impl Check {
    fn ok(check: &'static str, about: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::with(Verdict::Ok, check, about, message, "")
    }

    fn with(
        verdict: Verdict,
        check: &'static str,
        about: impl Into<String>,
        message: impl fmt::Display,
        fix: impl Into<String>,
    ) -> Self {
        Self { verdict, check, about: about.into(), message: message.to_string(), fix: fix.into() }
    }

    pub fn row(&self) -> [String; 4] {
        [self.verdict.as_str().to_owned(), self.check.to_owned(), self.about.clone(), self.sentence()]
    }

    fn sentence(&self) -> String {
        if self.fix.is_empty() { self.message.clone() } else { format!("{}; {}", self.message, self.fix) }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Servers and consumers wrote parts of it.
        let (about, sentence) = (one_line(&self.about), self.sentence());
        write!(f, "{:7}  {:10}  {about}: {}", self.verdict.as_str(), self.check, one_line(&sentence))
    }
}

/// Versions, clocks and credentials of all connections and of the clusters of providers.
pub(super) async fn servers(surveyor: &Surveyor) -> Vec<Check> {
    let (endpoints, unseen) = surveyor.endpoints().await;
    let version = concat!(env!("CARGO_PKG_VERSION"), ", commit ", env!("SYNC_ENGINE_COMMIT"));
    let mut checks = vec![Check::ok("version", "sync-engine", version)];
    let provider = |(name, why): &(String, Unseen)| {
        let about = format!("ClusterProvider `{name}`");
        Check::with(Verdict::Unknown, "version", about, why, "its clusters were not looked at")
    };
    checks.extend(unseen.iter().map(provider));
    let told = servers::ask(&endpoints).await;
    // A server that does not answer, or tells no time, has no clock here.
    let clocks = told.iter().filter_map(|(name, told)| Some((*name, told.as_ref().ok()?.ahead?)));
    // A token's file is read with the first request.
    let credentials = endpoints.iter().map(|(name, endpoint)| (name.as_str(), endpoint.connection()));
    checks.extend(together(told.iter().map(|(name, told)| server_version(name, told))));
    checks.extend(together(clocks.map(|(name, ahead)| clock(name, ahead))));
    checks.extend(together(credentials.map(|(name, connection)| credential(name, connection, Timestamp::now()))));
    checks
}

/// One line for connections that are fine in the same way: a fleet may have hundreds.
fn together(checks: impl Iterator<Item = Check>) -> Vec<Check> {
    let mut all: Vec<(Vec<String>, Check)> = Vec::new();
    for check in checks {
        let is_same = |other: &Check| check.verdict == Verdict::Ok && other.message == check.message;
        let name = format!("`{}`", check.about);
        match all.iter_mut().find(|(_, other)| is_same(other)) {
            Some((names, _)) => names.push(name),
            None => all.push((vec![name], check)),
        }
    }
    let shown = |(names, check): (Vec<String>, Check)| {
        let noun = if names.len() == 1 { "connection" } else { "connections" };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Check { about: format!("{noun} {}", named(&names)), ..check }
    };
    all.into_iter().map(shown).collect()
}

fn server_version(name: &str, told: &Result<Told, RequestError>) -> Check {
    match told {
        Ok(told) => Check::ok("version", name, &told.version),
        Err(why) => {
            let fix = "look whether `kubectl get --raw /version` answers with the same kubeconfig";
            Check::with(Verdict::Unknown, "version", name, why, fix)
        }
    }
}

fn clock(name: &str, ahead: SignedDuration) -> Check {
    if ahead.abs() <= MOST_AHEAD {
        return Check::ok("clock", name, "within 30 seconds of this machine's");
    }
    let direction = if ahead.is_positive() { "ahead of" } else { "behind" };
    let by = age(ahead.abs().as_secs().unsigned_abs());
    let message = format!("the server's clock is {by} {direction} this machine's");
    Check::with(Verdict::Warning, "clock", name, message, "`timedatectl` on both shows which one is wrong")
}

fn credential(name: &str, connection: &Connection, now: Timestamp) -> Check {
    let fine = Check::ok("credential", name, "none is known to end within 24 hours");
    let Some(ends) = connection.credential_ends() else { return fine };
    let left = ends.duration_since(now);
    let (verdict, message) = match left.is_positive() {
        false => (Verdict::Error, format!("it ended at {ends:.0}")),
        // The kubelet replaces the token of a Pod in time.
        true if left >= SOON || *connection.source() == ConnectionSource::InCluster => return fine,
        true => (Verdict::Warning, format!("it ends in {}, at {ends:.0}", age(left.as_secs().unsigned_abs()))),
    };
    let fix = match connection.source() {
        ConnectionSource::Kubeconfig { path, .. } => {
            format!("write another into {}: a running engine takes it up", path.display())
        }
        ConnectionSource::Held { kubeconfig, .. } => format!("write another into {}", kubeconfig.origin()),
        ConnectionSource::InCluster => "restart the Pod".to_owned(),
        ConnectionSource::Default | ConnectionSource::InProcess(_) => {
            format!("give another with {}", flag(name))
        }
    };
    Check::with(verdict, "credential", name, message, fix)
}

/// Claims of APIExports that workspaces have not accepted, as far as mappings need them.
pub(super) async fn claims(surveyor: &Surveyor, claimed: &Claimed) -> Vec<Check> {
    if claimed.is_empty() {
        return vec![Check::ok("claims", "all mappings", "they need no permission claim")];
    }
    let mut checks = Vec::new();
    for (export, needed) in claimed {
        let about = format!("APIExport `{}`", export.name);
        match surveyor.claims(export).await {
            Ok(Some(workspaces)) => checks.extend(unaccepted(&about, &workspaces, needed)),
            Ok(None) => {
                let fix = "`sync-engine rbac --for provider` prints the rights that the engine needs there";
                checks.push(Check::with(Verdict::Unknown, "claims", about, "its APIBindings cannot be read", fix));
            }
            // The mapping has a finding that says so.
            Err(_) => {}
        }
    }
    checks
}

/// A line for each claim that is not accepted everywhere.
fn unaccepted(
    about: &str,
    workspaces: &BTreeMap<String, Claims>,
    needed: &BTreeMap<Resource, BTreeSet<String>>,
) -> Vec<Check> {
    let lines = needed.iter().filter_map(|(resource, verbs)| {
        let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
        let lacking = workspaces.iter().filter(|(_, claims)| claims.is_unaccepted(resource, &verbs));
        let lacking: Vec<&str> = lacking.map(|(path, _)| path.as_str()).collect();
        let message = format!(
            "{} of {} did not accept the claim for {} ({}): {}",
            lacking.len(),
            count(workspaces.len(), "workspace"),
            resource.group_plural(),
            verbs.join(", "),
            named(&lacking)
        );
        let fix = format!("add to `spec.permissionClaims` of the APIBinding in each: {}", acceptance(resource, &verbs));
        (!lacking.is_empty()).then(|| Check::with(Verdict::Warning, "claims", about, message, fix))
    });
    let lines: Vec<Check> = lines.collect();
    if !lines.is_empty() {
        return lines;
    }
    vec![Check::ok("claims", about, format!("nothing is left to accept in {}", count(workspaces.len(), "workspace")))]
}

/// The first of them.
fn named(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        others => format!("{shown} and {others} more"),
    }
}

/// What the state stores on the targets of all mappings hold, compared with the documents of the files.
pub(super) async fn documents(surveyor: &Surveyor, catalog: &Catalog) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut recorded: BTreeMap<String, Vec<(String, Inventory)>> = BTreeMap::new();
    let (targets, unseen) = endpoints(surveyor, catalog).await;
    checks.extend(unseen.into_iter().map(|(name, why)| unread(&name, why)));
    for (name, stores) in surveyor.stores(&targets).await {
        match stores {
            Ok(stores) => stores.into_iter().filter(|store| !store.is_list).for_each(|store| {
                recorded.entry(store.mapping.clone()).or_default().push((name.to_owned(), store));
            }),
            Err(why) => checks.push(unread(name, why)),
        }
    }
    let is_whole = checks.is_empty();
    for (name, entry) in catalog.mappings() {
        let stores = recorded.remove(name).unwrap_or_default();
        // It may be recorded where nothing could be read.
        if is_whole || !stores.is_empty() {
            checks.push(compared(surveyor, &entry.mapping, &stores));
        }
    }
    // A document with an error may be the one that is recorded.
    if !catalog.diagnostics().iter().any(Diagnostic::is_error) {
        checks.extend(recorded.iter().map(|(mapping, stores)| without_file(mapping, stores)));
    }
    checks
}

/// The targets of all mappings.
async fn endpoints(surveyor: &Surveyor, catalog: &Catalog) -> (BTreeMap<String, Endpoint>, Vec<(String, Unseen)>) {
    let places: BTreeSet<Place> =
        catalog.mappings().flat_map(|(_, entry)| targets(&entry.mapping, &surveyor.home)).collect();
    let (mut found, mut unseen) = (BTreeMap::new(), Vec::new());
    for place in places {
        match place {
            Place::Target(name) => match surveyor.connection(&name) {
                Ok(connection) => drop(found.insert(name, connection.endpoint())),
                Err(why) => unseen.push((name, why)),
            },
            Place::Fleet(provider) => match surveyor.clusters(&provider).await {
                Ok(clusters) => found
                    .extend(clusters.into_iter().map(|(name, endpoint, _)| (format!("{provider}/{name}"), endpoint))),
                Err(why) => unseen.push((provider, why)),
            },
            Place::Provider { .. } | Place::Source(_) | Place::Hub(_) => {}
        }
    }
    (found, unseen)
}

fn unread(target: &str, why: impl fmt::Display) -> Check {
    let about = format!("target `{target}`");
    Check::with(Verdict::Unknown, "documents", about, why, "what its state stores hold was not looked at")
}

fn compared(surveyor: &Surveyor, mapping: &Mapping, stores: &[(String, Inventory)]) -> Check {
    let about = format!("mapping `{}`", mapping.name);
    let provider = mapping.provider_documents(|name| {
        Some(ClusterProvider { name: name.to_owned(), kind: surveyor.providers.get(name)?.clone() })
    });
    let is_same = |store: &Inventory| store.document == mapping.text && store.provider == provider;
    let others: Vec<_> = stores.iter().filter(|(_, store)| !is_same(store)).collect();
    if stores.is_empty() {
        return Check::ok("documents", about, "no engine has recorded it yet");
    }
    if others.is_empty() {
        let message = format!("its state store holds the document of the files ({})", on(stores));
        return Check::ok("documents", about, message);
    }
    let message = format!("its state store holds another document than the files ({})", on(others));
    let fix = "an engine runs that one: give all replicas the same files; `sync-engine status` tells whether an edit is refused";
    Check::with(Verdict::Warning, "documents", about, message, fix)
}

fn without_file(mapping: &str, stores: &[(String, Inventory)]) -> Check {
    let (about, message) =
        (format!("mapping `{mapping}`"), format!("an engine ran it, and no file has it ({})", on(stores)));
    let fix = "`sync-engine orphans --retained` lists what is left of it";
    Check::with(Verdict::Warning, "documents", about, message, fix)
}

/// `target `east`, recorded at …`
fn on<'s>(stores: impl IntoIterator<Item = &'s (String, Inventory)>) -> String {
    let one = |(target, store): &(String, Inventory)| match store.recorded {
        Some(at) => format!("target `{target}`, recorded at {at:.0}"),
        None => format!("target `{target}`"),
    };
    stores.into_iter().map(one).collect::<Vec<_>>().join("; ")
}
