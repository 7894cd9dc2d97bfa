//! `pleach cert DIR`: a private authority, and certificates of servers and clients by it.
//!
//! The authority is a key and its certificate in the folder; whoever has the key can make more. Not here: reading them (`tls`).

use crate::console::say;
use model::{Error, ErrorKind, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long the authority's certificate is good.
const AUTHORITY_DAYS: u32 = 3650;
/// Clocks of clients may be so much behind.
const BEFORE: Duration = DAY;

/// The flags of `cert`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Writes ca.crt and ca.key, unless they are there, then server.crt and server.key, or NAME.crt and NAME.key for \
                        each --client. Files that are there stay, unless --replace is given."
)]
pub(crate) struct CertFlags {
    /// Folder of the authority; it is made.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Host name or address that the server is asked by; may be repeated [default: localhost, 127.0.0.1 and ::1].
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Make a certificate of a client of this name instead; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    client: Vec<String>,
    /// How long the certificates are good.
    #[arg(long, value_name = "DAYS", default_value = "397")]
    days: u32,
    /// Replace certificates that are there; the authority stays.
    #[arg(long)]
    replace: bool,
}

/// Makes what is missing, and names it.
///
/// # Errors
/// A name that is none; files that are there; a folder that cannot be written.
pub(crate) fn run(flags: &CertFlags) -> Result<ExitCode> {
    crate::private::make_files_private();
    std::fs::create_dir_all(&flags.folder).map_err(|cause| unwritable(&flags.folder, &cause))?;
    let authority = authority(&flags.folder)?;
    if flags.client.is_empty() {
        let names = match flags.name.is_empty() {
            true => ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            false => flags.name.clone(),
        };
        let common = names[0].clone();
        issue(
            flags,
            &authority,
            "server",
            &common,
            names,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
    }
    for client in &flags.client {
        if client.contains('/') || client.starts_with('.') || ["ca", "server", ""].contains(&client.as_str()) {
            return Err(Error::illegal(format!(
                "[--client {client}] cannot be the name of a file of its own"
            )));
        }
        issue(
            flags,
            &authority,
            client,
            client,
            Vec::new(),
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The same at every run but for its time: certificates that it issued refer to its name and its key.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Pleach private authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    good_for(&mut params, AUTHORITY_DAYS);
    params
}

fn good_for(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + DAY * days).into();
}

/// The authority of the folder; it is made where there is none.
fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>> {
    let (certificate, key) = (folder.join("ca.crt"), folder.join("ca.key"));
    let params = authority_params();
    let pair = match (certificate.exists(), key.exists()) {
        (true, true) => {
            let text = std::fs::read_to_string(&key)
                .map_err(|cause| Error::illegal(format!("[{}] cannot be read: {cause}", key.display())))?;
            KeyPair::from_pem(&text).map_err(|cause| Error::illegal(format!("[{}] is no key: {cause}", key.display())))?
        }
        (false, false) => {
            let pair = KeyPair::generate().map_err(certificate_error)?;
            let signed = params.self_signed(&pair).map_err(certificate_error)?;
            write(&key, &pair.serialize_pem(), false)?;
            write(&certificate, &signed.pem(), false)?;
            pair
        }
        (is_there, _) => {
            let (there, missing) = if is_there { (certificate, key) } else { (key, certificate) };
            return Err(Error::illegal(format!(
                "[{}] is there without [{}]: an authority needs both",
                there.display(),
                missing.display()
            )));
        }
    };
    Ok(Issuer::new(params, pair))
}

fn issue(
    flags: &CertFlags,
    authority: &Issuer<'static, KeyPair>,
    file: &str,
    common: &str,
    names: Vec<String>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<()> {
    let (certificate, key) = (
        flags.folder.join(format!("{file}.crt")),
        flags.folder.join(format!("{file}.key")),
    );
    if !flags.replace
        && let Some(there) = [&certificate, &key].into_iter().find(|path| path.exists())
    {
        return Err(Error::illegal(format!(
            "[{}] is there already; --replace makes it anew",
            there.display()
        )));
    }
    let unfit = |cause: rcgen::Error| Error::illegal(format!("a certificate of [{common}] cannot be made: {cause}"));
    let mut params = CertificateParams::new(names).map_err(unfit)?;
    params.distinguished_name.push(DnType::CommonName, common);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    good_for(&mut params, flags.days);
    let pair = KeyPair::generate().map_err(certificate_error)?;
    let signed = params.signed_by(&pair, authority).map_err(unfit)?;
    write(&key, &pair.serialize_pem(), flags.replace)?;
    write(&certificate, &signed.pem(), flags.replace)
}

/// A file for its owner alone, written whole.
fn write(path: &Path, text: &str, replace: bool) -> Result<()> {
    let partial = path.with_extension("partial");
    let target = if replace { &partial } else { path };
    let file = OpenOptions::new()
        .write(true)
        .create_new(!replace)
        .create(replace)
        .truncate(true)
        .mode(0o600)
        .open(target);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    let done = written.and_then(|()| if replace { std::fs::rename(&partial, path) } else { Ok(()) });
    done.map_err(|cause| unwritable(path, &cause))?;
    say(&format!("{}\n", path.display()));
    Ok(())
}

fn unwritable(path: &Path, cause: &std::io::Error) -> Error {
    Error::illegal(format!("[{}] cannot be written: {cause}", path.display()))
}

fn certificate_error(cause: rcgen::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("making a key failed: {cause}"))
}
