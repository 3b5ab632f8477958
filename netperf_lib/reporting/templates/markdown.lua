-- Markdown of a notebook to the words of report.typ: alerts become callouts, tables break over pages, and everything
-- that is seen but not read as text carries an alternative text, as PDF/UA demands.

local alerts = { note = true, tip = true, important = true, warning = true, caution = true }

local function quoted(text)
  return '"' .. text:gsub('\\', '\\\\'):gsub('"', '\\"'):gsub('%s+', ' ') .. '"'
end

local function typst(block)
  return (pandoc.write(pandoc.Pandoc { block }, 'typst'):gsub('%s+$', ''))
end

function Div(div)
  for _, class in ipairs(div.classes) do
    if alerts[class] then
      local content = div.content:clone()
      if content[1] and content[1].t == 'Div' and content[1].classes:includes('title') then content:remove(1) end
      local out = pandoc.List { pandoc.RawBlock('typst', '#r.callout("' .. class .. '", none)[') }
      out:extend(content)
      out:insert(pandoc.RawBlock('typst', ']'))
      return out
    end
  end
end

function Math(math)
  local body = typst(pandoc.Plain { math })
  return pandoc.RawInline('typst', '#[#set math.equation(alt: ' .. quoted(math.text) .. ')\n' .. body .. '];')
end

function Image(image)
  local alt = pandoc.utils.stringify(image.caption)
  if alt == '' then alt = 'Image ' .. image.src end
  return pandoc.RawInline('typst', '#r.local-image(' .. quoted(image.src) .. ', ' .. quoted(alt) .. ');')
end

-- a column of numbers stands to the right
local function numeric(table_, column)
  local any = false
  for _, body in ipairs(table_.bodies) do
    for _, row in ipairs(body.body) do
      local cell = row.cells[column]
      local text = cell and pandoc.utils.stringify(cell.contents) or ''
      if text ~= '' then
        any = true
        if not tonumber((text:gsub('[,%%]', ''):gsub('\u{2212}', '-'))) then return false end
      end
    end
  end
  return any
end

function Table(table_)
  table_.identifier = ''
  for column, spec in ipairs(table_.colspecs) do
    if spec[1] == 'AlignDefault' then
      table_.colspecs[column] = { numeric(table_, column) and 'AlignRight' or 'AlignLeft', spec[2] }
    end
  end
  if #table_.caption.long > 0 then return table_ end
  local out = typst(table_)
  local inner = out:match('^#figure%(%s*align%(center%)%[(.*)%]%s*,%s*kind: table%s*%)%s*$')
  return pandoc.RawBlock('typst', inner and '#r.plain-table[' .. inner .. ']' or out)
end
