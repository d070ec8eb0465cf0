//! What the ranks of a run know and nobody else.

use hmac::{Hmac, KeyInit, Mac};
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::{Digest, Sha256};

use super::{JoinOptions, TOKEN_VARIABLE};
use crate::{Error, LaunchEnv, Result};

/// Bytes of a proof that a process knows the token.
pub(crate) const PROOF_LEN: usize = 32;
/// The fewest characters of a token.
const MIN_LEN: usize = 16;
/// Bytes that SHA-256 works on at once.
const BLOCK_LEN: usize = 64;
/// Random bytes of a token made here.
const RANDOM_LEN: usize = 32;

/// A secret shared by the ranks of a run. It is never sent: ranks prove that they know it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token from its text, as `SPAG_TOKEN` holds it.
    ///
    /// # Errors
    /// [`Error::Token`] for one of fewer than 16 characters.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        match text.len() >= MIN_LEN {
            true => Ok(Self(text.to_owned())),
            false => {
                Err(Error::Token(format!("it has {} characters, and at least {MIN_LEN} are needed; {HOW}", text.len())))
            }
        }
    }

    /// A new random token of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Token`] where the system has no random numbers to give.
    pub fn random() -> Result<Self> {
        Ok(Self(hexadecimal(&random_bytes::<RANDOM_LEN>()?)))
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What only one who knows the token can say about these bytes.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> [u8; PROOF_LEN] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether a proof about these bytes is right; takes as long for a wrong one as for a right one.
    pub(crate) fn accepts(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key is one block of the hash; a longer one is hashed first (RFC 2104).
        let mut block = [0u8; BLOCK_LEN];
        let hash = Sha256::digest(self.0.as_bytes());
        let key = if self.0.len() > BLOCK_LEN { hash.as_slice() } else { self.0.as_bytes() };
        block[..key.len()].copy_from_slice(key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

const HOW: &str = "make one with `openssl rand -hex 32` and export it as SPAG_TOKEN on every node";

/// Where a run's token is found.
#[derive(Clone, Debug)]
pub(crate) enum TokenSource {
    /// It was told.
    Told(Token),
    /// Rank 0 makes it and leaves it in a file for the other ranks on the machine.
    File,
}

/// Where the token of this run is found.
///
/// # Errors
/// [`Error::Token`] where it was not told and ranks are on several machines.
pub(crate) fn token_source(env: &LaunchEnv, options: &JoinOptions) -> Result<TokenSource> {
    match &options.token {
        Some(token) => Ok(TokenSource::Told(token.clone())),
        None if env.local_size == env.world_size => Ok(TokenSource::File),
        None => Err(Error::Token(format!("{TOKEN_VARIABLE} is not set, and the ranks are on several machines; {HOW}"))),
    }
}

/// Random bytes that nobody can guess.
///
/// # Errors
/// [`Error::Token`] where the system has none to give.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| Error::Token(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn proofs_are_hmac_sha256() {
        // A key longer than a block, as in RFC 4231's sixth case.
        let token = Token::new(&"a".repeat(131)).unwrap();
        let proof = token.prove(&[b"Test Using Larger Than Block-Size Key", b" - Hash Key First"]);
        // Computed with Python's hmac module.
        let expected = "d021303c2f34bf3ae541b4ec9c672691694c6f71c5c0c55781545a66115b14a7";
        assert_eq!(super::hexadecimal(&proof), expected);
        assert!(token.accepts(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &proof));
        assert!(!token.accepts(&[b"Test Using Larger Than Block-Size Key"], &proof));
        assert!(
            !Token::random().unwrap().accepts(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &proof)
        );
    }

    #[test]
    fn tokens_are_long_and_not_shown() {
        assert!(Token::new("short").unwrap_err().to_string().contains("at least 16"));
        let token = Token::random().unwrap();
        assert_eq!(token.text().len(), 64);
        assert!(!format!("{token:?}").contains(token.text()));
    }
}
