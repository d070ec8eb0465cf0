//! All-gather and broadcast of small data (numbers and strings) that is not a tensor.

use candle_core::{Device, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, ProcessGroup, Result};

/// All-gathers numbers; returns each rank's, in rank order. All ranks must pass the same count.
///
/// # Errors
/// As [`ProcessGroup::all_gather`].
pub fn gather_numbers(group: &dyn ProcessGroup, own: &[f64]) -> Result<Vec<Vec<f64>>> {
    if own.is_empty() {
        return Ok(vec![Vec::new(); group.size()]);
    }
    let mut all = vec![0.0; own.len() * group.size()];
    all[own.len() * group.rank()..][..own.len()].copy_from_slice(own);
    let buffer = Tensor::new(all, &Device::Cpu)?;
    group.all_gather(&buffer)?;
    Ok(buffer.to_vec1::<f64>()?.chunks(own.len()).map(<[f64]>::to_vec).collect())
}

/// All-gathers texts; returns each rank's, in rank order. Lengths may differ.
///
/// # Errors
/// As [`ProcessGroup::all_gather`].
pub fn gather_texts(group: &dyn ProcessGroup, own: &str) -> Result<Vec<String>> {
    let lengths = gather_numbers(group, &[own.len() as f64])?;
    let lengths: Vec<usize> = lengths.iter().map(|length| length[0] as usize).collect();
    // At least 1: an empty tensor cannot be split into parts.
    let part = lengths.iter().copied().max().unwrap_or(0).max(1);
    let mut all = vec![0u8; part * group.size()];
    all[part * group.rank()..][..own.len()].copy_from_slice(own.as_bytes());
    let buffer = Tensor::new(all, &Device::Cpu)?;
    group.all_gather(&buffer)?;
    let bytes = buffer.to_vec1::<u8>()?;
    let texts = bytes.chunks(part).zip(&lengths);
    Ok(texts.map(|(text, length)| String::from_utf8_lossy(&text[..*length]).into_owned()).collect())
}

/// All-gathers lists; returns the items of all ranks, in rank order.
///
/// # Errors
/// As [`ProcessGroup::all_gather`], or items that JSON does not hold.
pub fn gather_lists<T: Serialize + DeserializeOwned>(group: &dyn ProcessGroup, own: &[T]) -> Result<Vec<T>> {
    let json = |error: serde_json::Error| Error::Json(error.to_string());
    let texts = gather_texts(group, &serde_json::to_string(own).map_err(json)?)?;
    let lists: Vec<Vec<T>> =
        texts.iter().map(|text| serde_json::from_str(text).map_err(json)).collect::<Result<_>>()?;
    Ok(lists.into_iter().flatten().collect())
}

/// Broadcasts rank 0's text.
///
/// # Errors
/// As [`ProcessGroup::all_gather`].
pub fn broadcast_text(group: &dyn ProcessGroup, own: &str) -> Result<String> {
    let own = if group.rank() == 0 { own } else { "" };
    Ok(gather_texts(group, own)?.swap_remove(0))
}

/// Checks that all ranks have the same settings: `facts` are (name, value) pairs, compared with those of rank 0.
///
/// # Errors
/// [`Error::Disagree`], the same on every rank, naming the first rank that differs and its first differing setting.
pub fn agree(group: &dyn ProcessGroup, facts: &[(&str, String)]) -> Result<()> {
    // One fact per line, so line breaks in values are escaped.
    let own: Vec<String> = facts.iter().map(|(name, value)| format!("{name}\t{}", value.escape_default())).collect();
    let all = gather_texts(group, &own.join("\n"))?;
    let first: Vec<&str> = all[0].lines().collect();
    for (rank, text) in all.iter().enumerate().skip(1) {
        let lines: Vec<&str> = text.lines().collect();
        let differing = (0..first.len().max(lines.len())).find(|line| first.get(*line) != lines.get(*line));
        let Some(line) = differing else { continue };
        let fact = |lines: &[&str]| lines.get(line).and_then(|line| line.split_once('\t')).map(owned);
        let (theirs, ours) = (fact(&lines), fact(&first));
        let what = theirs.as_ref().or(ours.as_ref()).map(|(name, _)| name.clone()).unwrap_or_default();
        let value = |fact: Option<(String, String)>| fact.map_or_else(|| "nothing".to_owned(), |(_, value)| value);
        return Err(Error::Disagree { rank, what, theirs: value(theirs), first: value(ours) });
    }
    Ok(())
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
