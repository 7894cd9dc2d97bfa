//! A value as another type.

use super::*;
use crate::ast::Ty;

impl<'p> Run<'p, '_> {
    /// A value as a declared type; `explicit` conversions may lose digits.
    pub(crate) fn convert(&mut self, v: Value, ty: Ty, explicit: bool) -> R {
        let lenient = explicit || self.groovy();
        let name = match ty {
            Ty::Def | Ty::Other | Ty::Date => return Ok(v),
            Ty::Int => "int",
            Ty::Long => "long",
            Ty::Float => "float",
            Ty::Double => "double",
            Ty::Short => "short",
            Ty::Byte => "byte",
            Ty::Char => "char",
            Ty::Bool => "boolean",
            Ty::Str => "java.lang.String",
            Ty::List => "java.util.List",
            Ty::Map => "java.util.Map",
            Ty::Set => "java.util.Set",
        };
        if matches!(v, Value::Null) {
            return Ok(v);
        }
        Ok(match ty {
            Ty::Int | Ty::Short | Ty::Byte | Ty::Long => self.to_whole(&v, ty, name, lenient)?,
            Ty::Float | Ty::Double => self.to_real(&v, ty, name, lenient)?,
            Ty::Char => match &v {
                Value::Char(_) => v,
                Value::Str(s) if s.chars().count() == 1 => Value::Char(s.chars().next().unwrap_or(' ')),
                _ => match v.as_i64().and_then(|n| char::from_u32(n as u32 & 0xffff)) {
                    Some(c) => Value::Char(c),
                    None => return refuse(&v, name),
                },
            },
            Ty::Bool => match &v {
                Value::Bool(_) => v,
                v if self.groovy() => Value::Bool(v.is_truthy()),
                _ => return refuse(&v, name),
            },
            Ty::Str => match &v {
                Value::Str(_) => v,
                Value::Char(c) => Value::Str(c.to_string().into()),
                _ if self.groovy() => {
                    let s = self.show(&v)?;
                    self.text(s)?
                }
                _ => return refuse(&v, name),
            },
            Ty::List => match &v {
                Value::List(_) | Value::Doc(_) => v,
                Value::Set(_) if self.groovy() => self.list(v.items().unwrap_or_default())?,
                _ => return refuse(&v, name),
            },
            Ty::Map => match &v {
                Value::Map(_) => v,
                _ => return refuse(&v, name),
            },
            Ty::Set => match &v {
                Value::Set(_) => v,
                Value::List(_) if self.groovy() => {
                    let items = v.items().unwrap_or_default();
                    self.alloc(items.len() * 48)?;
                    Value::set(items)
                }
                _ => return refuse(&v, name),
            },
            Ty::Def | Ty::Other | Ty::Date => v,
        })
    }

    fn to_whole(&self, v: &Value, ty: Ty, name: &str, lenient: bool) -> R {
        let n = match (v, v.as_i64(), v.as_f64()) {
            (Value::Char(_), Some(n), _) if lenient || ty == Ty::Int || ty == Ty::Long => n,
            (Value::Long(_), Some(_), _) if !lenient && ty != Ty::Long => return refuse(v, name),
            (_, Some(n), _) => n,
            (_, None, Some(f)) if lenient => match ty {
                Ty::Long => f as i64,
                _ => i64::from(f as i32),
            },
            (Value::Str(s), ..) if self.groovy() => match s.trim().parse() {
                Ok(n) => n,
                Err(_) => return number_format(s),
            },
            _ => return refuse(v, name),
        };
        Ok(match ty {
            Ty::Long => Value::Long(n),
            Ty::Short => Value::Int(i32::from(n as i16)),
            Ty::Byte => Value::Int(i32::from(n as i8)),
            _ => Value::Int(n as i32),
        })
    }

    fn to_real(&self, v: &Value, ty: Ty, name: &str, lenient: bool) -> R {
        let n = match (v, v.as_f64()) {
            (Value::Double(_), Some(_)) if ty == Ty::Float && !lenient => return refuse(v, name),
            (_, Some(n)) => n,
            (Value::Str(s), _) if self.groovy() => match s.trim().parse() {
                Ok(n) => n,
                Err(_) => return number_format(s),
            },
            _ => return refuse(v, name),
        };
        Ok(if ty == Ty::Float {
            Value::Float(n as f32)
        } else {
            Value::Double(n)
        })
    }
}

fn refuse<T>(v: &Value, to: &str) -> R<T> {
    cast(format!("Cannot cast [{}] to [{to}].", v.class()))
}
