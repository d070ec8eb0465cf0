//! The secret shared by the ranks of a run.

use hmac::{Hmac, KeyInit, Mac};
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::{Digest, Sha256};
use spag_io::hex;

use super::JoinOptions;
use crate::{Error, LaunchEnv, Result};

/// Bytes of an HMAC-SHA256.
pub(crate) const PROOF_LEN: usize = 32;
const MIN_LEN: usize = 16;
/// Bytes of a block of SHA-256.
const BLOCK_LEN: usize = 64;
/// Bytes of a random token.
const RANDOM_LEN: usize = 32;

/// A secret shared by the ranks of a run. It is never sent; ranks authenticate each other with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token from its text, the value of `SPAG_TOKEN`.
    ///
    /// # Errors
    /// [`Error::Token`] for fewer than 16 characters.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() < MIN_LEN {
            let given = text.len();
            return Err(Error::Token(format!("it has {given} characters, and at least {MIN_LEN} are needed; {HOW}")));
        }
        Ok(Self(text.to_owned()))
    }

    /// A new random token of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Token`] if the system's random number generator fails.
    pub fn random() -> Result<Self> {
        Ok(Self(hex(&random_bytes::<RANDOM_LEN>()?)))
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The HMAC of these bytes.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> [u8; PROOF_LEN] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `proof` is the HMAC of these bytes, in constant time.
    pub(crate) fn accepts(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key longer than a block is hashed first (RFC 2104).
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

/// The token from the environment. `None`: rank 0 generates one and writes it to a `TokenFile`.
///
/// # Errors
/// [`Error::Token`] if it is not set and ranks are on several machines.
pub(crate) fn given_token(env: &LaunchEnv, options: &JoinOptions) -> Result<Option<Token>> {
    if options.token.is_none() && env.local_size != env.world_size {
        return Err(Error::Token(format!("SPAG_TOKEN is not set, and the ranks are on several machines; {HOW}")));
    }
    Ok(options.token.clone())
}

/// Bytes from the system's random number generator.
///
/// # Errors
/// [`Error::Token`] if it fails.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| Error::Token(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn proofs_equal_hmac_sha256() {
        // A key longer than a block, as in RFC 4231's sixth case.
        let token = Token::new(&"a".repeat(131)).unwrap();
        let proof = token.prove(&[b"Test Using Larger Than Block-Size Key", b" - Hash Key First"]);
        // Computed with Python's hmac module.
        let expected = "d021303c2f34bf3ae541b4ec9c672691694c6f71c5c0c55781545a66115b14a7";
        assert_eq!(super::hex(&proof), expected);
        assert!(token.accepts(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &proof));
        assert!(!token.accepts(&[b"Test Using Larger Than Block-Size Key"], &proof));
        assert!(
            !Token::random().unwrap().accepts(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &proof)
        );
    }

    #[test]
    fn token_needs_16_characters_and_is_not_shown_by_debug() {
        assert!(Token::new("short").unwrap_err().to_string().contains("at least 16"));
        let token = Token::random().unwrap();
        assert_eq!(token.text().len(), 64);
        assert!(!format!("{token:?}").contains(token.text()));
    }
}
