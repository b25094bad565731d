use super::*;
use crate::connection::Connection;
use crate::connection::tests::{open, write};
use crate::mailbox::Mailbox;
use sync_engine_mapping::{ApiExportRef, Resource};

fn provider() -> ProviderName {
    let export = ApiExportRef { connection: "kcp".into(), path: None, name: "db".into(), endpoint_slice: None };
    ProviderName::Source(SourceClusters::ApiExport(export))
}

/// A connection to where nobody listens.
pub fn connection() -> Arc<Connection> {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), "http://127.0.0.1:1");
    open(file.path())
}

fn name(name: &str) -> ClusterName {
    ClusterName::try_from(name).unwrap()
}

fn spec(connection: &Arc<Connection>, cluster: &str, url: &str) -> ClusterSpec {
    let endpoint = connection.endpoint_at(url).unwrap();
    let scope = WatchScope { endpoint: endpoint.at("clusters/*"), clusters: ClustersOf::Annotated };
    ClusterSpec::new(name(cluster), cluster.into(), endpoint, scope)
}

fn applied(connection: &Arc<Connection>, cluster: &str, url: &str) -> ProviderEvent {
    ProviderEvent::Apply(Arc::new(spec(connection, cluster, url)))
}

/// `+a URL` for engaged, `~a LABELS` for described, `-a URL Reason` for disengaged.
fn word(event: &ClusterEvent) -> String {
    let at = |cluster: &Cluster| format!("{} {}", cluster.spec.name, cluster.spec.endpoint.url());
    match event {
        ClusterEvent::Engaged(cluster) => format!("+{}", at(cluster)),
        ClusterEvent::Described(cluster) => {
            format!("~{} {:?}", cluster.spec.name, cluster.spec.traits.labels.as_ref().unwrap())
        }
        ClusterEvent::Disengaged(cluster, reason) => format!("-{} {reason}", at(cluster)),
        ClusterEvent::Synced(_) => "synced".into(),
        ClusterEvent::Identity(_, identity) => format!("identity {identity}"),
    }
}

fn words(transitions: &[ClusterEvent]) -> Vec<String> {
    transitions.iter().map(word).collect()
}

/// What a reader of a mailbox gets.
fn read(mailbox: &mut Mailbox) -> Vec<String> {
    std::iter::from_fn(|| mailbox.take()).map(|event| word(&event)).collect()
}

#[test]
fn clusters_are_engaged_replaced_and_disengaged() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    let mut apply = |event| {
        let before = registry.changes();
        let told = words(&registry.apply(&provider, event));
        assert_eq!(registry.changes() != before, !told.is_empty(), "{told:?}");
        told
    };
    assert_eq!(apply(applied(&connection, "a", "http://one")), ["+a http://one"]);
    assert_eq!(apply(applied(&connection, "a", "http://one/")), [""; 0]);
    assert_eq!(apply(applied(&connection, "a", "http://two")), ["-a http://one Replaced", "+a http://two"]);
    assert_eq!(apply(ProviderEvent::Synced), ["synced"]);
    assert_eq!(apply(ProviderEvent::Synced), [""; 0]);
    assert_eq!(apply(ProviderEvent::Identity("u".into())), ["identity u"]);
    assert_eq!(apply(ProviderEvent::Identity("u".into())), [""; 0]);
    assert_eq!(apply(ProviderEvent::Gone(name("a"), Reason::EndpointLost)), ["-a http://two EndpointLost"]);
    assert_eq!(apply(ProviderEvent::Gone(name("a"), Reason::Removed)), [""; 0]);
}

/// Whoever disengages a cluster walks through the sources of all clusters.
#[test]
fn a_workspace_that_accepts_other_claims_stays_engaged() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    registry.apply(&provider, applied(&connection, "a", "http://one"));
    for plural in ["secrets", "configmaps", "secrets"] {
        let claims = [(Resource::new("", "v1", plural), vec!["*".to_owned()])].into_iter().collect();
        let described = ClusterSpec { claims: Some(claims), ..spec(&connection, "a", "http://one") };
        let told = registry.apply(&provider, ProviderEvent::Apply(Arc::new(described.clone())));
        assert!(matches!(&told[..], [ClusterEvent::Described(cluster)] if *cluster.spec == described), "{told:?}");
        assert_eq!(registry.cluster(&provider, &name("a")).map(|cluster| &*cluster.spec), Some(&described));
    }
}

#[test]
fn a_stream_that_starts_again_keeps_what_it_applies_again() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    for cluster in ["a", "b"] {
        registry.apply(&provider, applied(&connection, cluster, "http://one"));
    }
    registry.apply(&provider, ProviderEvent::Synced);
    registry.start(&provider);
    assert!(!registry.is_synced(&provider));
    assert_eq!(words(&registry.apply(&provider, applied(&connection, "b", "http://one"))), [""; 0]);
    assert_eq!(words(&registry.apply(&provider, ProviderEvent::Synced)), ["-a http://one Removed", "synced"]);
}

#[test]
fn what_was_found_at_a_former_address_stays_until_it_is_known_what_is_at_the_new_one() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    for cluster in ["a", "b"] {
        registry.apply(&provider, applied(&connection, cluster, "http://one"));
    }
    registry.apply(&provider, ProviderEvent::Identity("u".into()));
    registry.apply(&provider, ProviderEvent::Synced);
    let late = words(&registry.replay());
    assert_eq!(late, ["+a http://one", "+b http://one", "identity u", "synced"], "who comes late hears everything");
    registry.moved(&provider);
    registry.start(&provider);
    assert_eq!((registry.clusters(&provider).count(), registry.identity(&provider)), (2, None));
    let mut apply = |event| words(&registry.apply(&provider, event));
    assert_eq!(apply(applied(&connection, "b", "http://two")), ["-b http://one Replaced", "+b http://two"]);
    assert_eq!(apply(ProviderEvent::Identity("u".into())), ["identity u"], "nobody goes by what was known before");
    assert_eq!(apply(ProviderEvent::Synced), ["-a http://one Replaced", "synced"]);
}

#[test]
fn a_stopped_provider_has_no_clusters_and_no_say() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    registry.apply(&provider, applied(&connection, "a", "http://one"));
    assert_eq!(words(&registry.stop(&provider, Reason::ProviderStopped)), ["-a http://one ProviderStopped"]);
    assert_eq!(words(&registry.apply(&provider, applied(&connection, "a", "http://one"))), [""; 0]);
    assert!(registry.clusters(&provider).next().is_none() && registry.replay().is_empty());
}

/// Each reconcile that shares something asks whether all of them are followed.
#[test]
fn a_scope_is_known_once_however_many_clusters_it_has() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    let scopes = |registry: &Registry| {
        registry.scopes(&provider).map(|scope| scope.endpoint.url().to_owned()).collect::<Vec<_>>()
    };
    for (cluster, url) in [("a", "http://one"), ("b", "http://one"), ("c", "http://one"), ("d", "http://two")] {
        registry.apply(&provider, applied(&connection, cluster, url));
    }
    assert_eq!(scopes(&registry), ["http://one/clusters/*", "http://two/clusters/*"]);
    registry.apply(&provider, applied(&connection, "d", "http://one"));
    assert_eq!(scopes(&registry), ["http://one/clusters/*"], "nobody is left at the other address");
    for cluster in ["a", "b", "c"] {
        registry.apply(&provider, ProviderEvent::Gone(name(cluster), Reason::Removed));
    }
    assert_eq!(scopes(&registry), ["http://one/clusters/*"]);
    registry.apply(&provider, ProviderEvent::Gone(name("d"), Reason::Removed));
    assert_eq!(scopes(&registry), [""; 0]);
}

/// A hundred thousand objects may be of workspaces that are gone, and each is looked for among ten thousand that are there.
#[test]
fn a_cluster_is_found_by_its_identity_without_a_look_at_the_others() {
    let (connection, provider, mut registry) = (connection(), provider(), Registry::default());
    registry.start(&provider);
    let apply = |registry: &mut Registry, cluster: &str, identity: &str| {
        let spec = ClusterSpec { identity: identity.into(), ..spec(&connection, cluster, "http://one") };
        registry.apply(&provider, ProviderEvent::Apply(spec.into()));
    };
    let found = |registry: &Registry, identity: &str| {
        registry.cluster_of_identity(&provider, identity).map(|cluster| cluster.spec.name.to_string())
    };
    let others = |registry: &Registry| registry.providers[0].1.others.len();
    apply(&mut registry, "a", "a");
    assert_eq!((found(&registry, "a").as_deref(), others(&registry)), (Some("a"), 0));
    for (cluster, identity) in [("edge", "uid"), ("east", "uid"), ("b", "a"), ("c", "d")] {
        apply(&mut registry, cluster, identity);
    }
    let all = ["uid", "a", "d", "c", "edge"].map(|identity| found(&registry, identity));
    assert_eq!(all.each_ref().map(Option::as_deref), [Some("east"), Some("a"), Some("c"), None, None]);
    registry.apply(&provider, ProviderEvent::Gone(name("east"), Reason::Removed));
    registry.apply(&provider, ProviderEvent::Gone(name("a"), Reason::Removed));
    apply(&mut registry, "c", "e");
    let all = ["uid", "a", "d", "e"].map(|identity| found(&registry, identity));
    assert_eq!(all.each_ref().map(Option::as_deref), [Some("edge"), Some("b"), None, Some("c")]);
    assert_eq!(others(&registry), 3);
}

#[test]
fn a_slow_reader_hears_the_sum_of_what_happened() {
    let (connection, provider) = (connection(), provider());
    let (mut registry, mut mailbox) = (Registry::default(), Mailbox::default());
    registry.start(&provider);
    let mut happens = |mailbox: &mut Mailbox, event| {
        registry.apply(&provider, event).into_iter().for_each(|transition| mailbox.put(transition));
    };
    let applied = |url| applied(&connection, "a", url);
    let gone = || ProviderEvent::Gone(name("a"), Reason::Removed);

    happens(&mut mailbox, ProviderEvent::Synced);
    happens(&mut mailbox, applied("http://one"));
    happens(&mut mailbox, applied("http://two"));
    assert_eq!(read(&mut mailbox), ["+a http://two", "synced"], "what was replaced unread is never heard of");
    happens(&mut mailbox, gone());
    happens(&mut mailbox, applied("http://three"));
    happens(&mut mailbox, applied("http://four"));
    assert_eq!(read(&mut mailbox), ["-a http://two Removed", "+a http://four"]);
    happens(&mut mailbox, gone());
    happens(&mut mailbox, applied("http://five"));
    happens(&mut mailbox, gone());
    assert_eq!(read(&mut mailbox), ["-a http://four Removed"]);
    happens(&mut mailbox, applied("http://six"));
    happens(&mut mailbox, gone());
    assert_eq!(read(&mut mailbox), [""; 0]);
    happens(&mut mailbox, applied("http://seven"));
    happens(&mut mailbox, ProviderEvent::Identity("u".into()));
    assert_eq!(read(&mut mailbox), ["identity u", "+a http://seven"], "nobody serves it by a former identity");
}

#[test]
fn a_cluster_with_other_labels_stays_engaged() {
    let (connection, provider) = (connection(), provider());
    let (mut registry, mut mailbox) = (Registry::default(), Mailbox::default());
    registry.start(&provider);
    let mut happens = |mailbox: &mut Mailbox, event| {
        let transitions = registry.apply(&provider, event);
        transitions.iter().for_each(|transition| mailbox.put(transition.clone()));
        words(&transitions)
    };
    let labelled = |tier: &str, url| {
        let labels = Some(BTreeMap::from([("tier".to_owned(), tier.to_owned())]));
        let traits = Traits { labels, properties: None };
        ProviderEvent::Apply(Arc::new(ClusterSpec { traits, ..spec(&connection, "a", url) }))
    };
    let gone = || ProviderEvent::Gone(name("a"), Reason::Removed);

    assert_eq!(happens(&mut mailbox, labelled("gold", "http://one")), ["+a http://one"]);
    assert_eq!(happens(&mut mailbox, labelled("silver", "http://one")), [r#"~a {"tier": "silver"}"#]);
    assert_eq!(read(&mut mailbox), ["+a http://one"], "it is heard of as it is now");
    assert_eq!(happens(&mut mailbox, labelled("silver", "http://one")), [""; 0]);
    happens(&mut mailbox, labelled("gold", "http://one"));
    assert_eq!(read(&mut mailbox), [r#"~a {"tier": "gold"}"#]);
    assert_eq!(happens(&mut mailbox, labelled("silver", "http://two")), ["-a http://one Replaced", "+a http://two"]);
    happens(&mut mailbox, labelled("gold", "http://two"));
    assert_eq!(read(&mut mailbox), ["-a http://one Replaced", "+a http://two"]);
    // Who was not told of the labels yet is told that it is gone.
    happens(&mut mailbox, labelled("silver", "http://two"));
    happens(&mut mailbox, gone());
    assert_eq!(read(&mut mailbox), ["-a http://two Removed"]);
}
