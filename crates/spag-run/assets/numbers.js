// Numbers for people.

/** A whole number with separators. */
export function count(number) {
  return number.toLocaleString("en");
}

/** A number with about four digits. */
export function figure(number) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-3) return number.toExponential(2);
  return number.toLocaleString("en", { maximumSignificantDigits: 4 });
}

/** A number with the ends of its interval, if it has one. */
export function estimate(number, interval) {
  return interval ? `${figure(number)} [${figure(interval[0])}, ${figure(interval[1])}]` : figure(number);
}

/** A share of a whole. */
export function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

/** Seconds as people say them. */
export function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Bytes in units of 1024. */
export function bytes(number) {
  if (number < 1 << 30) return `${(number / (1 << 20)).toFixed(0)} MiB`;
  return `${(number / (1 << 30)).toFixed(2)} GiB`;
}

/** Units per second, or per minute if they are few. */
export function rate(perSecond, unit) {
  return perSecond >= 0.1 ? `${figure(perSecond)} ${unit}/s` : `${figure(60 * perSecond)} ${unit}/min`;
}
