//! The files and folders that a configuration names.

use std::path::{Path, PathBuf};

use crate::{
    config::{
        Config, ConfigFile,
        audit::AuditSetup,
        bundle::{BundleSource, PolicySetup},
        clients::ClientsSetup,
        http::{HttpSetup, TokenPlace},
        oauth::OauthSetup,
    },
    database::Database,
    key_file::name_key_file,
    secret::Secret,
};

/// What agents must neither read nor change: the broker's folder, databases, policies, logs, requests that wait, and files of secrets.
pub(super) fn list_own_paths(file: &ConfigFile) -> Vec<PathBuf> {
    let mut paths = vec![file.broker().directory.clone()];
    paths.extend(file.granted_files().iter().cloned());
    for policies in file.policies() {
        match policies {
            PolicySetup::Folder(folder) => paths.push(folder),
            PolicySetup::Bundle(bundle) => {
                paths.push(bundle.keep.clone());
                match &bundle.source {
                    BundleSource::File(path) => paths.push(path.clone()),
                    BundleSource::Address(_) | BundleSource::Registry(_) => {}
                }
            }
        }
    }
    // A server over HTTP can have the same configuration.
    let HttpSetup {
        tokens,
        certificate,
        oauth,
        clients,
        proxies: _,
        hosts: _,
        origins: _,
        sessions: _,
        tasks: _,
        metrics: _,
        requests_per_minute: _,
        connections: _,
    } = file.http();
    if let Some((certificate, key)) = certificate {
        paths.extend([certificate.clone(), key.clone()]);
    }
    match tokens {
        TokenPlace::File(path) => paths.push(path.clone()),
        TokenPlace::State => {}
    }
    if let Some(oauth) = oauth {
        let OauthSetup {
            claims,
            resource: _,
            audience: _,
            scopes: _,
            issuers: _,
        } = oauth;
        paths.push(claims.clone());
    }
    if let Some(clients) = clients {
        let ClientsSetup {
            authorities,
            revoked,
            claims,
            is_required: _,
        } = clients;
        paths.extend([authorities.clone(), claims.clone()]);
        paths.extend(revoked.clone());
    }
    for audit in file.audits() {
        let AuditSetup {
            file: log,
            key,
            anchors,
            anchor_command: _,
            anchor_records: _,
            anchor_minutes: _,
            sync: _,
            max_file_kb: _,
            max_file_hours: _,
            max_files: _,
        } = audit;
        paths.extend(log.as_deref().map(name_key_file));
        paths.extend(match key {
            Some(Secret::File(path)) => Some(path),
            Some(Secret::Env(_)) | None => None,
        });
        paths.extend(log.into_iter().chain(anchors));
    }
    for approvals in file.approvals() {
        paths.extend(approvals.file().map(name_key_file));
        paths.extend(approvals.file().map(Path::to_owned));
    }
    let connections = file.names().filter_map(|name| file.connection(name).ok());
    for (config, database) in connections {
        let Config {
            // These have been asked for above, of all connections.
            policies: _,
            audit: _,
            approvals: _,
            candidate,
            // Its file is granted.
            token_secret: _,
            principal: _,
            on_finding: _,
            sensitivity: _,
            scanning: _,
            budgets: _,
            heartbeat: _,
            token_lifetime: _,
            limits: _,
            writable: _,
            answer_size: _,
            tools: _,
            collector: _,
        } = config;
        paths.extend(candidate.clone());
        match database {
            Database::Sqlite(path) | Database::Memory(Some(path)) => paths.push(path.clone()),
            Database::Memory(None) | Database::Server(_) => {}
        }
    }
    paths
}
