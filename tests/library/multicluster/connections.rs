//! Connections: credentials that change, and ones that are broken.

use serde_json::json;
use sync_engine::multicluster::connection::{Connection, Reloaded};

use crate::multicluster::scene::{Folder, kubeconfig};

/// What the command line is told, the folder's name replaced.
fn refusal(folder: &Folder, context: Option<&str>) -> String {
    let error = Connection::open(folder.spec(context)).expect_err("a refusal").to_string();
    error.replace(&folder.0.path().display().to_string(), "DIR")
}

#[test]
fn what_the_command_line_got_wrong_is_said_with_the_fix() {
    insta::assert_snapshot!(refusal(&Folder::new(), None), @"connection `kcp`: cannot read the kubeconfig DIR/kubeconfig: there is no such file; give one with `--kcp-kubeconfig PATH[#CONTEXT]`");
    let secret = "users: [{name: u, user: {token: s3cret}";
    insta::assert_snapshot!(refusal(&Folder::with(secret), None), @"connection `kcp`: DIR/kubeconfig is no kubeconfig: line 1 column 9: unclosed bracket '{'; give one with `--kcp-kubeconfig PATH[#CONTEXT]`");
    insta::assert_snapshot!(refusal(&Folder::with("just a text"), None), @"connection `kcp`: DIR/kubeconfig is no kubeconfig: line 1 column 1: expected mapping start; give one with `--kcp-kubeconfig PATH[#CONTEXT]`");
    insta::assert_snapshot!(refusal(&Folder::with(""), None), @"connection `kcp`: DIR/kubeconfig holds no context; give one with `--kcp-kubeconfig PATH[#CONTEXT]`");
    let good = Folder::with(&kubeconfig("http://127.0.0.1:1", json!({})));
    insta::assert_snapshot!(refusal(&good, Some("there")), @"connection `kcp`: no context `there` in DIR/kubeconfig; there are: here");
    let undecided = kubeconfig("http://127.0.0.1:1", json!({})).replace(r#""current-context":"here","#, "");
    insta::assert_snapshot!(refusal(&Folder::with(&undecided), None), @"connection `kcp`: no current context in DIR/kubeconfig; add `#CONTEXT` to the path, one of: here");
    let bad_server = Folder::with(&kubeconfig("ftp://127.0.0.1", json!({})));
    insta::assert_snapshot!(refusal(&bad_server, None), @"connection `kcp`: `ftp://127.0.0.1/` is no http or https address");
    let bad_certificate = Folder::with(&kubeconfig(
        "https://127.0.0.1:1",
        json!({"client-certificate-data": "AAAA", "client-key-data": "AAAA"}),
    ));
    insta::assert_snapshot!(refusal(&bad_certificate, None), @"connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: rustls tls error: identity PEM is missing a private key: the key must be PKCS8 or RSA/PKCS1");
    let no_certificate = Folder::with(&kubeconfig(
        "https://127.0.0.1:1",
        json!({"client-certificate": "nowhere.crt", "client-key": "nowhere.key"}),
    ));
    insta::assert_snapshot!(refusal(&no_certificate, None), @r#"connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: failed to load client certificate: failed to read file '"DIR/nowhere.crt"': No such file or directory (os error 2)"#);
    let interactive = Folder::with(&kubeconfig(
        "https://127.0.0.1:1",
        json!({"exec": {"command": "login", "interactiveMode": "Always"}}),
    ));
    insta::assert_snapshot!(refusal(&interactive, None), @"connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: its exec plugin wants a terminal (`interactiveMode: Always`), and the engine has none");
    let proxy = kubeconfig("https://127.0.0.1:1", json!({}));
    let proxy = proxy.replace(r#""server":"#, r#""proxy-url": "https://me:secret@proxy:3128", "server":"#);
    insta::assert_snapshot!(refusal(&Folder::with(&proxy), None), @"connection `kcp`: context `here` of DIR/kubeconfig cannot be used: `proxy-url`: `https://proxy:3128` is no address of a proxy: expected http://, socks5:// or socks5h://, a host and a port");
    let dangling = r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b"}}]}"#;
    insta::assert_snapshot!(refusal(&Folder::with(dangling), None), @"connection `kcp`: context `a` of DIR/kubeconfig cannot be used: its cluster `b` is not in the file");
    let ghost = r#"{"current-context": "a", "clusters": [{"name": "b", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "b", "user": "ghost"}}]}"#;
    insta::assert_snapshot!(refusal(&Folder::with(ghost), None), @"connection `kcp`: context `a` of DIR/kubeconfig cannot be used: its user `ghost` is not in the file");
}

#[test]
fn a_workspace_path_replaces_the_cluster_of_the_address() {
    let url = |server: &str, path: Option<&str>| {
        let connection = Folder::with(&kubeconfig(server, json!({}))).connection();
        connection.workspace(path).map(|endpoint| endpoint.url().to_owned()).map_err(|error| error.to_string())
    };
    assert_eq!(url("https://kcp:6443/clusters/root:a/", None).unwrap(), "https://kcp:6443/clusters/root:a");
    assert_eq!(url("https://kcp:6443/clusters/root:a", Some("root:b")).unwrap(), "https://kcp:6443/clusters/root:b");
    assert_eq!(url("https://kcp:6443", Some("root:b")).unwrap(), "https://kcp:6443/clusters/root:b");
    assert_eq!(url("https://kcp/prefix/clusters/x", Some("root")).unwrap(), "https://kcp/prefix/clusters/root");
    assert_eq!(url("kcp:6443", None).unwrap(), "http://kcp:6443");
    assert_eq!(url("http://me:secret@kcp:6443/x", None).unwrap(), "http://kcp:6443/x", "nothing secret is shown");
    insta::assert_snapshot!(url("https://kcp:6443", Some("root:b/../..")).unwrap_err(), @"connection `kcp`: `root:b/../..` is no workspace path (names of lower case letters, digits and `-`, joined by `:`)");
}

#[test]
fn a_reload_tells_what_changed_and_a_broken_one_keeps_what_works() {
    let folder = Folder::with(&kubeconfig("http://127.0.0.1:1", json!({"token": "a"})));
    let connection = folder.connection();
    assert_eq!(connection.reload().unwrap(), Reloaded::Unchanged);
    folder.write("kubeconfig", &kubeconfig("http://127.0.0.1:1", json!({"token": "b"})));
    assert_eq!(connection.reload().unwrap(), Reloaded::Credential);
    folder.write("kubeconfig", "clusters: [");
    assert!(connection.reload().is_err());
    assert_eq!(connection.endpoint().url(), "http://127.0.0.1:1");
    folder.write("kubeconfig", &kubeconfig("http://127.0.0.1:2", json!({"token": "b"})));
    assert_eq!(connection.reload().unwrap(), Reloaded::Address);
    assert_eq!(connection.endpoint().url(), "http://127.0.0.1:2");
}
