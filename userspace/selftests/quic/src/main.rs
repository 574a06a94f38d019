// SPDX-License-Identifier: MIT OR Apache-2.0

//! An ordinary QUIC client and server with quinn: `quic-example serve ADDRESS:PORT` sends the
//! number of bytes that a client requests, and `quic-example get HOST:PORT BYTES` requests them and
//! prints how long that took. They do not depend on weft.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, ServerConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// The server's name in its certificate.
const NAME: &str = "weft";
/// The data that is sent repeatedly.
const CHUNK: [u8; 16 * 1024] = [b'w'; 16 * 1024];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = runtime
        .context("starting")
        .and_then(|runtime| match *words {
            ["serve", address] => runtime.block_on(serve(address)),
            ["get", address, bytes] => runtime.block_on(get(address, bytes)),
            _ => bail!("usage: quic-example serve ADDRESS:PORT | get HOST:PORT BYTES"),
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic-example: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str) -> Result<()> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::with_single_cert(vec![cert.der().clone()], key)?;
    let endpoint = Endpoint::server(config, resolve(address)?)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async {
            if let Err(error) = answer(incoming).await {
                eprintln!("quic-example: {error:#}");
            }
        });
    }
    Ok(())
}

/// Answers the request on each stream.
async fn answer(incoming: Incoming) -> Result<()> {
    let connection = incoming.await?;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let asked = receive.read_to_end(20).await?;
        let mut left: usize = std::str::from_utf8(&asked)?.parse()?;
        while left > 0 {
            let part = left.min(CHUNK.len());
            send.write_all(&CHUNK[..part]).await?;
            left -= part;
        }
        send.finish()?;
    }
    Ok(())
}

async fn get(address: &str, bytes: &str) -> Result<()> {
    let wanted: usize = bytes.parse().context("a number of bytes")?;
    let address = resolve(address)?;
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(client()?);
    let begun = Instant::now();
    let connection = endpoint.connect(address, NAME)?.await?;
    let connected = begun.elapsed();
    let received = fetch(&connection, bytes, wanted).await?;
    let took = begun.elapsed();
    println!(
        "{received} bytes, connected after {:.6} s, all there after {:.6} s",
        connected.as_secs_f64(),
        took.as_secs_f64()
    );
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

async fn fetch(connection: &Connection, bytes: &str, wanted: usize) -> Result<usize> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(bytes.as_bytes()).await?;
    send.finish()?;
    let mut received = 0;
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        ensure!(
            chunk.bytes.iter().all(|byte| *byte == CHUNK[0]),
            "other bytes"
        );
        received += chunk.bytes.len();
    }
    ensure!(received == wanted, "{received} bytes of {wanted}");
    Ok(received)
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let mut found = address.to_socket_addrs().context(address.to_owned())?;
    found
        .next()
        .with_context(|| format!("{address}: no address"))
}

fn client() -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols.clear();
    let config = quinn::crypto::rustls::QuicClientConfig::try_from(config)?;
    Ok(ClientConfig::new(Arc::new(config)))
}

/// Accepts any certificate: the server creates a new, self-signed one each time.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
