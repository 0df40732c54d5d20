//! Keeps `docs/configuration.md` true: every field stands there with its default, nothing else
//! does, and its sample is a configuration.
#![cfg(test)]

use std::collections::BTreeMap;
use std::path::Path;

use lakeserve_storage::{Secret, StoreOptions};

use super::*;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    std::fs::read_to_string(path).unwrap()
}

/// Rows ``| `key` | `default` | …`` of the document.
fn documented() -> BTreeMap<String, String> {
    let text = document();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let key = cells.next()?.trim_matches('`').to_owned();
        let default = cells.next()?.trim_matches('`').to_owned();
        let meaning = cells.next()?;
        assert!(meaning.len() > 10, "`{key}` is not explained");
        Some((key, default))
    });
    rows.collect()
}

/// Every leaf of the default configuration, with its value as TOML writes it.
fn fields() -> BTreeMap<String, String> {
    fn walk(prefix: &str, value: &toml::Value, found: &mut BTreeMap<String, String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&key, value, found);
                }
            }
            toml::Value::String(text) => drop(found.insert(prefix.to_owned(), text.clone())),
            other => drop(found.insert(prefix.to_owned(), other.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    walk("", &toml::Value::try_from(Config::default()).unwrap(), &mut found);
    // One per core: the document says so instead of naming a number.
    found.insert("engine.session.target_partitions".into(), "one per core".into());
    found.insert("storage.stores".into(), "none".into());
    for optional in ["engine.session.spill_folder", "http.advertise"] {
        found.insert(optional.into(), "none".into());
    }
    let text = || Some("x".to_owned());
    let store = StoreOptions {
        prefix: "x".into(),
        endpoint: text(),
        region: text(),
        allow_http: Some(true),
        virtual_hosted_style: true,
        skip_signature: true,
        profile: text(),
        access_key_id: text(),
        secret_access_key: Some(Secret::new("x")),
        session_token: Some(Secret::new("x")),
        service_account_path: text(),
        account_name: text(),
        account_key: Some(Secret::new("x")),
    };
    let toml::Value::Table(store) = toml::Value::try_from(store).unwrap() else { panic!("a table") };
    for key in store.keys() {
        let default = match key.as_str() {
            "prefix" => "required",
            "virtual_hosted_style" | "skip_signature" => "false",
            _ => "none",
        };
        found.insert(format!("storage.stores.{key}"), default.into());
    }
    found.insert("tables.NAME.location".into(), "required".into());
    found.insert("tables.NAME.format".into(), "none".into());
    found.insert("catalogs.NAME.type".into(), "required".into());
    found.insert("catalogs.NAME.location".into(), "required".into());
    found
}

#[test]
fn every_field_is_documented_with_its_default_and_nothing_else_is() {
    let (fields, documented) = (fields(), documented());
    for (key, default) in &fields {
        assert_eq!(
            documented.get(key),
            Some(default),
            "docs/configuration.md has another default, or no row, for `{key}`"
        );
    }
    for key in documented.keys() {
        assert!(fields.contains_key(key), "docs/configuration.md tells of `{key}`, which is no field");
    }
}

#[test]
fn the_sample_is_a_configuration() {
    let text = document();
    let sample = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample.toml");
    std::fs::write(&file, sample).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert!(!config.tables.is_empty() && !config.storage.stores.is_empty());
}
