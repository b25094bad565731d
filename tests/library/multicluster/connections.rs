//! Connections: credentials that change, and ones that are broken.

use serde_json::{Value, json};
use sync_engine::multicluster::connection::{Connection, Reloaded};

use crate::multicluster::scene::{Folder, kubeconfig};

/// What the command line is told, the folder's name replaced.
fn refusal(folder: &Folder, context: Option<&str>) -> String {
    let error = Connection::open(folder.spec(context)).expect_err("a refusal").to_string();
    error.replace(&folder.0.path().display().to_string(), "DIR")
}

#[test]
fn what_the_command_line_got_wrong_is_said_with_the_fix() {
    let good = kubeconfig("http://127.0.0.1:1", json!({}));
    let user = |user: Value| kubeconfig("https://127.0.0.1:1", user);
    let proxy = r#""proxy-url": "https://me:secret@proxy:3128", "server":"#;
    let files = [
        "users: [{name: u, user: {token: s3cret}".to_owned(),
        "just a text".to_owned(),
        String::new(),
        good.replace(r#""current-context":"here","#, ""),
        kubeconfig("ftp://me:secret@127.0.0.1", json!({})),
        user(json!({"client-certificate-data": "AAAA", "client-key-data": "AAAA"})),
        user(json!({"client-certificate": "nowhere.crt", "client-key": "nowhere.key"})),
        user(json!({"exec": {"command": "login", "interactiveMode": "Always"}})),
        user(json!({})).replace(r#""server":"#, proxy),
        r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b"}}]}"#.to_owned(),
        r#"{"current-context": "a", "clusters": [{"name": "b", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "a", "context": {"cluster": "b", "user": "ghost"}}]}"#
            .to_owned(),
    ];
    let named = [refusal(&Folder::new(), None), refusal(&Folder::with(&good), Some("there"))];
    let read = files.iter().map(|file| refusal(&Folder::with(file), None));
    insta::assert_snapshot!(named.into_iter().chain(read).collect::<Vec<_>>().join("\n"), @r#"
    connection `kcp`: cannot read the kubeconfig DIR/kubeconfig: there is no such file; give one with `--kcp-kubeconfig PATH[#CONTEXT]`
    connection `kcp`: no context `there` in DIR/kubeconfig; there are: here
    connection `kcp`: DIR/kubeconfig is no kubeconfig: line 1 column 9: unclosed bracket '{'; give one with `--kcp-kubeconfig PATH[#CONTEXT]`
    connection `kcp`: DIR/kubeconfig is no kubeconfig: line 1 column 1: expected mapping start; give one with `--kcp-kubeconfig PATH[#CONTEXT]`
    connection `kcp`: DIR/kubeconfig holds no context; give one with `--kcp-kubeconfig PATH[#CONTEXT]`
    connection `kcp`: no current context in DIR/kubeconfig; add `#CONTEXT` to the path, one of: here
    connection `kcp`: `ftp://127.0.0.1/` is no http or https address
    connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: rustls tls error: identity PEM is missing a private key: the key must be PKCS8 or RSA/PKCS1
    connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: failed to load client certificate: failed to read file '"DIR/nowhere.crt"': No such file or directory (os error 2)
    connection `kcp`: the credential of DIR/kubeconfig, context here cannot be used: its exec plugin wants a terminal (`interactiveMode: Always`), and the engine has none
    connection `kcp`: context `here` of DIR/kubeconfig cannot be used: `proxy-url`: `https://proxy:3128` is no address of a proxy: expected http://, socks5:// or socks5h://, a host and a port
    connection `kcp`: context `a` of DIR/kubeconfig cannot be used: its cluster `b` is not in the file
    connection `kcp`: context `a` of DIR/kubeconfig cannot be used: its user `ghost` is not in the file
    "#);
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

#[tokio::test]
async fn a_reload_tells_what_changed_and_a_broken_one_keeps_what_works() {
    let folder = Folder::with(&kubeconfig("http://127.0.0.1:1", json!({"token": "a"})));
    let connection = folder.connection();
    assert_eq!(connection.reload().await.unwrap(), Reloaded::Unchanged);
    folder.write("kubeconfig", &kubeconfig("http://127.0.0.1:1", json!({"token": "b"})));
    assert_eq!(connection.reload().await.unwrap(), Reloaded::Credential);
    folder.write("kubeconfig", "clusters: [");
    assert!(connection.reload().await.is_err());
    assert_eq!(connection.endpoint().url(), "http://127.0.0.1:1");
    folder.write("kubeconfig", &kubeconfig("http://127.0.0.1:2", json!({"token": "b"})));
    assert_eq!(connection.reload().await.unwrap(), Reloaded::Address);
    assert_eq!(connection.endpoint().url(), "http://127.0.0.1:2");
}
