//! `palisade policy bundle`: policies packed, signed and verified.

use std::{fmt::Write as _, fs, io::ErrorKind, path::Path};

use palisade::{host::Host as _, policy::PolicyOrigin};
use palisade_host::{BundleKey, BundleKeyError, Machine, PolicyBundle, pack_bundle};
use serde_json::{Map, Value, json};

use crate::{
    args::{
        Format, PolicyArguments,
        bundle::{BundleCommand, KeygenArguments, PackArguments, VerifyArguments},
    },
    bundle,
    database::Access,
    database_name::CatalogSource,
    exit::{Exit, Failure},
    key_file,
    policies::{self, Policies},
    secret::Secret,
    setup::Setup,
    stdout,
};

/// Runs the command.
pub(crate) fn run(command: &BundleCommand) -> Result<Exit, Failure> {
    let text = match command {
        BundleCommand::Keygen(arguments) => make_key(arguments)?,
        BundleCommand::Pack(arguments) => pack(arguments)?,
        BundleCommand::Verify(arguments) => verify(arguments)?,
    };
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}

fn make_key(arguments: &KeygenArguments) -> Result<String, Failure> {
    let KeygenArguments { file, format } = arguments;
    let key = BundleKey::generate().map_err(Failure::Internal)?;
    key_file::write(file, key.reveal()).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::AlreadyExists => "a key is never written over; name a new file",
            _ => "name a file in a folder that can be written",
        };
        Failure::Usage(format!(
            "cannot write `{}`: {error}\n  help: {help}",
            file.display()
        ))
    })?;
    let public = key.public();
    Ok(match format {
        Format::Text => format!("public_keys = [\"{public}\"]\n"),
        Format::Json => format!("{}\n", json!({"public_key": public.to_string()})),
    })
}

fn read_key(path: &Path) -> Result<BundleKey, Failure> {
    let text = Secret::File(path.to_owned()).read()?;
    text.reveal().parse().map_err(|error: BundleKeyError| {
        Failure::Usage(format!("the key `{}`: {error}", path.display()))
    })
}

fn pack(arguments: &PackArguments) -> Result<String, Failure> {
    let PackArguments {
        dir,
        name,
        key,
        out,
        serial,
        format,
    } = arguments;
    let policies = Policies::read(dir)?;
    let keys = key
        .iter()
        .map(|path| read_key(path))
        .collect::<Result<Vec<_>, _>>()?;
    let serial = serial.unwrap_or_else(|| Machine::new().unix_time().as_secs());
    let keys: Vec<_> = keys.iter().collect();
    let bytes = pack_bundle(&policies.sources, name, serial, &keys).map_err(|error| {
        Failure::Usage(format!(
            "`{}` cannot be packed: {error}\n  help: a bundle holds what loading reads, in files with plain names, and has a serial number from 1",
            dir.display()
        ))
    })?;
    fs::write(out, &bytes)
        .map_err(|error| Failure::Usage(format!("cannot write `{}`: {error}", out.display())))?;
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let bundle = PolicyBundle::open(&bytes, &public)
        .map_err(|error| Failure::Internal(error.to_string()))?;
    Ok(match format {
        Format::Text => format!("`{}`: {}", out.display(), describe(&bundle)),
        Format::Json => format!("{}\n", Value::Object(describe_json(&bundle))),
    })
}

fn verify(arguments: &VerifyArguments) -> Result<String, Failure> {
    let VerifyArguments {
        file,
        key,
        catalog,
        dialect,
        secret,
        config,
        unpack,
        format,
    } = arguments;
    let shown = file.display();
    let bytes = bundle::read_file(file)
        .map_err(|why| Failure::Usage(format!("cannot read the bundle: {why}")))?;
    let bundle = PolicyBundle::open(&bytes, key).map_err(|error| {
        Failure::Configuration(format!(
            "error: the bundle `{shown}` cannot be used: {error}\n  help: name the public half of the key that signed it, or have it packed anew"
        ))
    })?;
    let mut warnings = 0;
    if let Some(catalog) = catalog {
        let starter = PolicyArguments {
            principal: None,
            policies: None,
            config: config.clone(),
        };
        let source = CatalogSource::argument(catalog)?;
        let (setup, catalog) = Setup::over_catalog_alone(source, *dialect, secret, &starter)?;
        let setup = setup.with_policies(Policies::bundled(bundle.sources.clone()));
        let firewall = setup.firewall(catalog, Access::Write)?;
        warnings = firewall.policies().warnings().len();
    } else {
        secret.refuse_unused("a bundle without a schema")?;
    }
    if let Some(dir) = unpack {
        write_files(&bundle, dir)?;
    }
    let fits = catalog.as_ref().map(|name| (name, warnings));
    Ok(match format {
        Format::Text => {
            let mut out = format!("`{shown}`: {}", describe(&bundle));
            if let Some((name, warnings)) = fits {
                let _ = writeln!(out, "It loads over `{name}`, with {warnings} warnings.");
            }
            out
        }
        Format::Json => {
            let mut told = describe_json(&bundle);
            told.insert("loads".to_owned(), json!(fits.is_some().then_some(true)));
            let warnings = fits.map(|(_, warnings)| warnings);
            told.insert("warnings".to_owned(), json!(warnings));
            format!("{}\n", Value::Object(told))
        }
    })
}

/// What is in a bundle and who signed it, for programs.
fn describe_json(bundle: &PolicyBundle) -> Map<String, Value> {
    let PolicyOrigin {
        name,
        serial,
        digest,
    } = &bundle.origin;
    let files: Vec<_> = (bundle.files.iter())
        .map(|file| json!({"name": file.name, "sha256": file.sha256, "bytes": file.text.len()}))
        .collect();
    let told = [
        ("name", json!(name)),
        ("serial", json!(serial)),
        ("digest", json!(digest)),
        ("signers", json!(bundle.signers)),
        ("files", json!(files)),
    ];
    told.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn write_files(bundle: &PolicyBundle, dir: &Path) -> Result<(), Failure> {
    let files: Vec<_> = (bundle.files.iter())
        .map(|file| (file.name.as_str(), file.text.as_str()))
        .collect();
    policies::write(&files, dir)
}

/// What is in a bundle and who signed it.
fn describe(bundle: &PolicyBundle) -> String {
    let PolicyOrigin {
        name,
        serial,
        digest,
    } = &bundle.origin;
    let mut out = format!("bundle {name}, serial number {serial}\n");
    let _ = writeln!(out, "  digest  sha256:{digest}");
    for signer in &bundle.signers {
        let _ = writeln!(out, "  signed  by the key {signer}");
    }
    for file in &bundle.files {
        let bytes = file.text.len();
        let _ = writeln!(
            out,
            "  file    {} {}, {bytes} bytes",
            file.sha256, file.name
        );
    }
    out
}
